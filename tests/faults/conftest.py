"""Counts what a run leaves behind: processes below it, and what grading puts into the temporary folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

LEFTOVERS = ("grader-*", "pymp-*", "graded-*")


@pytest.fixture
def temporary(tmp_path_factory, monkeypatch) -> Path:
    """A temporary folder of the test's own, so that other programs' files are not taken for leftovers."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for pattern in LEFTOVERS for path in folder.glob(pattern))
