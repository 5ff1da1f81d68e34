"""The process of a GPU, which can be started before PyTorch is imported here: it wakes the GPU meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from grader.sandbox.supervisor import CannotStart, Supervised

Target = Callable[[Connection, str], None]

DRIVER = Path("/dev/nvidiactl")
"""There where NVIDIA's driver is loaded."""

_woken: dict[tuple[Target, str], Supervised] = {}


def serve(connection: Connection, gpu: str) -> None:
    """What the process of a runner does."""
    from grader.running.cuda_process import main

    main(connection, gpu)


def wake(gpu: int = 0) -> None:
    """Begins to start a runner's process for a GPU that may be there; returns at once. Whoever makes a runner first gets it."""
    if not DRIVER.exists():
        return
    process = taken(serve, gpu)
    try:
        process.start()
    except CannotStart:  # told to whoever asks for a runner
        return
    _woken[serve, visible(gpu)] = process


def taken(target: Target, gpu: int) -> Supervised:
    """The process that was woken for this, once, or one that is not started yet."""
    return _woken.pop((target, visible(gpu)), None) or Supervised(target, visible(gpu))


def visible(gpu: int) -> str:
    """The GPU's name for CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[gpu] if visible else str(gpu)
