"""The folder for unpacked archives: gone with its batch, or with the next one; never another batch's."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from grader.classroom.batch.workspace import PREFIX, workspace


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_batch_left_is_removed(temporary):
    left = temporary / f"{PREFIX}killed"
    (left / "inside").mkdir(parents=True)
    with workspace() as folder:
        assert not left.exists()
        (folder / "file").write_text("x")
    assert not list(temporary.iterdir())


def test_a_folder_in_use_and_a_link_are_left_alone(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    with workspace() as first:
        (first / "file").write_text("x")
        with workspace() as second:
            assert second != first
            assert (first / "file").exists()
    assert elsewhere.exists()


def test_a_new_folder_that_another_batch_takes_for_a_left_one_is_made_again(monkeypatch):
    """Between its making and its lock."""
    make, made = tempfile.mkdtemp, []

    def taken(**options):
        made.append(Path(make(**options)))
        if len(made) == 1:
            shutil.rmtree(made[0])
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    with workspace() as folder:
        assert folder == made[1]
        assert folder.is_dir()
