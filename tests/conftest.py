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
    """The files through which the processes of this run share graded mistakes go with it."""
    run = getattr(getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None), "testrunuid", None)
    if run is not None:
        shutil.rmtree(Path(tempfile.gettempdir()) / f"graded-mistakes-{run}", ignore_errors=True)
