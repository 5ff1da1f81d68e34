"""What a process and all that it started use: CPU time, memory, processes; and whether it has to wait for a CPU.

Memory is the resident set; where the sum over a family is above the limit, pages that several of them map are divided
among those (Pss), so that the libraries a fork shares with its parent are not counted again for each child. What is
in nobody's resident set cannot be had: `system_calls` refuses memfd, shared mappings and segments, and files lie in
file systems of bounded size.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

MEMORY_BYTES = 6 << 30
MAX_PROCESSES = 48
MAX_THREADS = 256
CPU_SECONDS = 900
"""What the kernel allows one process, see `isolation`."""

TABLE_SECONDS = 0.1
"""How long one look at all processes of the machine serves everybody who asks."""

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """One look at a family."""

    cpu_seconds: float
    """User and system time, of children that were waited for too."""

    runnable: bool
    """Whether one of them runs or waits for a CPU, rather than for something else."""

    pids: tuple[int, ...]
    threads: int


def measure(pid: int) -> Usage:
    """The family of `pid` now. Who ends meanwhile counts no more."""
    pids = _family(pid)
    cpu, runnable, threads = 0.0, False, 0
    for member in pids:
        fields = _stat(member)
        if fields is None:
            continue
        runnable |= fields[0] == "R"
        cpu += sum(map(int, fields[11:15])) / TICKS
        threads += int(fields[17])
    return Usage(cpu, runnable, tuple(pids), threads)


def excess(usage: Usage) -> str | None:
    """Which limit a family is over, as the end of a sentence."""
    if len(usage.pids) > MAX_PROCESSES:
        return (
            f"it started more than {MAX_PROCESSES} processes and was ended; a kernel's module has no need to start any"
        )
    if usage.threads > MAX_THREADS:
        return f"it started more than {MAX_THREADS} threads and was ended; a kernel's module has no need to start any"
    if sum(map(_resident, usage.pids)) > MEMORY_BYTES and sum(map(_proportional, usage.pids)) > MEMORY_BYTES:
        return (
            f"it used more than {MEMORY_BYTES / (1 << 30):.2g} GB of memory and was ended; "
            "look for arrays far larger than the tensors"
        )
    return None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Its share of the pages it maps. Where that may not be read: what it alone may have, anonymous pages."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except OSError:
        pass
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
            return (resident - shared) * PAGE
    except (OSError, ValueError):
        return 0


class _Table:
    """Children of every process, from one look at /proc: for kernels that do not list them by themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = float("-inf")
        self._children: dict[int, list[int]] = {}

    def children(self, pid: int) -> list[int]:
        with self._lock:
            if time.monotonic() - self._seen > TABLE_SECONDS:
                self._children = {}
                for name in os.listdir("/proc"):
                    fields = _stat(int(name)) if name.isdigit() else None
                    if fields:
                        self._children.setdefault(int(fields[1]), []).append(int(name))
                self._seen = time.monotonic()
            return self._children.get(pid, [])


_table = _Table()
LISTED = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _family(pid: int) -> list[int]:
    found = [pid]
    for member in found:  # grows meanwhile
        found += _children(member)
        if len(found) > 4 * MAX_PROCESSES:
            break
    return found


def _children(pid: int) -> list[int]:
    if not LISTED:
        return _table.children(pid)
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found
