"""Looking at other processes, some of which end meanwhile."""

from __future__ import annotations

import psutil


def command_line(process: psutil.Process) -> str:
    """How a process was started; empty when it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """All processes below one, by default below this one."""
    return psutil.Process(pid).children(recursive=True)
