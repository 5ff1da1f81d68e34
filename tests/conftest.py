"""GPU tests run where a GPU can grade, and are skipped with the reason elsewhere."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # a thread pool a process, all on the same cores, spends its time spinning

import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from grader.gpu.devices import cuda_problem, gpus

SHARED = Path(tempfile.gettempdir()) / f"grader-tests-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
"""What the processes of one run share: graded mistakes, and binaries in the place of the user's."""
os.environ["GRADER_TESTS_SHARED"], os.environ["XDG_CACHE_HOME"] = str(SHARED), str(SHARED / "cache")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job passes that on to all we start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
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
