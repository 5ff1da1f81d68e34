"""GPU tests run where a GPU can grade, and are skipped with the reason elsewhere."""

from __future__ import annotations

import gc
import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # a thread pool a process, all on the same cores, spends its time spinning
    gc.set_threshold(50_000)  # as grader/__main__.py has it

import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from grader.gpu.devices import cuda_problem, gpus
from grader.labs import all_labs
from tests.rotation import left_out

SHARED = Path(tempfile.gettempdir()) / f"grader-tests-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
"""What the processes of one run share: binaries in the place of the user's."""
os.environ["XDG_CACHE_HOME"] = str(SHARED / "cache")
for given in ("MAKEFLAGS", "MFLAGS", "ARGS", "VENV", "PYTHON"):
    os.environ.pop(given, None)  # what `make test` was given is not for the `make grade` of a test

os.environ["GRADER_SECRETS"] = ""  # a course's own secrets change no test

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job passes that on to all we start
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_thread():
    """Tensors are small; a pool of threads on shared cores only waits for itself."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def without_pictures(monkeypatch):
    """Pages are drawn in a tenth of the time."""
    monkeypatch.setattr("grader.reporting.page.image", lambda draw: None)


def pytest_collection_modifyitems(items):
    bonus = [lab.id for lab in all_labs().values() if lab.bonus]
    reasons = left_out([item.nodeid for item in items], bonus)
    for item in items:
        if item.nodeid in reasons:
            item.add_marker(pytest.mark.skip(reason=reasons[item.nodeid]))
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    found = gpus()
    reason = cuda_problem(found[0] if found else None)
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


def pytest_sessionfinish(session):
    """What the processes of this run share goes with it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        run = getattr(getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None), "testrunuid", None)
        shutil.rmtree(SHARED.with_name(f"grader-tests-{run}") if run else SHARED, ignore_errors=True)
