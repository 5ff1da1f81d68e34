"""The process of a GPU, which can be started before PyTorch is imported here: the GPU gets ready meanwhile."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path

from grader.sandbox.supervisor import CannotStart, Serve, Supervised

DRIVER = Path("/dev/nvidiactl")
"""There where NVIDIA's driver is loaded."""

_prestarted: dict[tuple[Serve, str], Supervised] = {}


def serve(connection: Connection, gpu: str) -> None:
    """What the process of a runner does."""
    from grader.running.cuda_process import main

    main(connection, gpu)


def prestart(gpu: int = 0) -> None:
    """Begins to start a runner's process for a GPU that may be there; returns at once. Whoever makes a runner first gets it."""
    if not DRIVER.exists():
        return
    process = take(serve, gpu)
    try:
        process.start()
    except CannotStart:  # told to whoever asks for a runner
        return
    _prestarted[serve, visible(gpu)] = process


def take(target: Serve, gpu: int) -> Supervised:
    """The process that was woken for this, once, or one that is not started yet."""
    return _prestarted.pop((target, visible(gpu)), None) or Supervised(target, visible(gpu))


def visible(gpu: int) -> str:
    """The GPU's name for CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[gpu] if visible else str(gpu)
