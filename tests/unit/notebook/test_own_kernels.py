"""What a notebook decides for its process is decided where a notebook begins, and by no import."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from grader.notebook import own_kernels
from tests.submissions import TESTS

COMPILING = "tests/unit/building/test_cubin.py::test_ordinary_kernels_are_fine"
ORDER = [__file__, "-k", "no_import_decides or plain-90", COMPILING]


def test_no_import_decides_how_triton_runs():
    """First in a process where Triton was never imported, so that this file's import of the notebook could have decided."""
    import grader.notebook.check_cells  # noqa: F401

    assert "TRITON_INTERPRET" not in os.environ


@pytest.mark.slow
def test_kernels_compile_in_a_process_that_imported_the_notebook():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET" and not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", *ORDER],
        cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False,
    )
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(("device", "imported", "interpreted"), [("cpu", False, True), ("cpu", True, False), ("cuda", False, False)])
def test_a_notebook_is_interpreted_where_no_gpu_can_run_it(monkeypatch, device, imported, interpreted):
    monkeypatch.setenv("TRITON_INTERPRET", "")
    monkeypatch.setattr(own_kernels, "device", torch.device(device))
    monkeypatch.setattr(own_kernels.sys, "modules", {"triton": own_kernels} if imported else {})
    installed = []
    monkeypatch.setattr(own_kernels.tracebacks, "install", installed.append)
    own_kernels.begin("a shell")
    assert os.environ["TRITON_INTERPRET"] == ("1" if interpreted else "")
    assert installed == ["a shell"]
