"""Looking at other processes, some of which end meanwhile: of one that has ended there is nothing to see."""

from __future__ import annotations

import os
import socket

import psutil


def free_port() -> int:
    """A port of this machine at which nobody listens now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def command_line(process: psutil.Process) -> str:
    """How a process was started; empty when it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def parent(process: psutil.Process) -> int | None:
    """The number of its parent; None when it has ended."""
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def children(process: psutil.Process | int, *, recursive: bool = False) -> list[psutil.Process]:
    """The processes that one has started; none when it has ended."""
    try:
        return list((psutil.Process(process) if isinstance(process, int) else process).children(recursive=recursive))
    except psutil.Error:
        return []


def descendants(pid: int | None = None) -> list[psutil.Process]:
    """All processes below one, by default below this one."""
    return children(pid or os.getpid(), recursive=True)


def gpu_processes(command: int) -> list[psutil.Process]:
    """The processes of a command that drive a GPU: those that it spawned. (Whatever imports a torch with CUDA maps the driver.)"""
    return [child for child in children(command) if "multiprocessing.spawn" in command_line(child)]
