"""What spreads a batch's work: takes kernels, tells what becomes of them, and survives whatever it runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from grader.model import KernelSource, LabReport

Stage = Literal["built", "ran"]


@dataclass(frozen=True)
class Reached:
    """A kernel has come through a stage."""

    key: str
    stage: Stage


@dataclass(frozen=True)
class Done:
    """A kernel's verdict."""

    key: str
    report: LabReport


@dataclass(frozen=True)
class Failed:
    """The grader could not come to a verdict; the sentence says why, and a human has to look."""

    key: str
    reason: str


Event = Reached | Done | Failed
CANCELLED = "it was cancelled before it was graded"


class EngineFailed(RuntimeError):
    """The engine cannot go on at all; the message says why."""


class Engine(Protocol):
    """Use as a context manager; leaving it ends all its processes. Events come in any order, one verdict a key."""

    def submit(self, key: str, source: KernelSource) -> None:
        """Queues a kernel; returns at once."""

    def cancel(self, key: str) -> None:
        """Nobody waits for this kernel any more: the stage that it is in ends, no other begins; its last event may be Failed."""

    def next_event(self, seconds: float) -> Event | None:
        """The next event, or None when none came in this time. Raises EngineFailed."""


Starter = Callable[[], AbstractContextManager[Engine]]
"""What starts an engine, when it is known that there is something to grade."""
