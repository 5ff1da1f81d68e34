"""Precompilation: tasks in processes of their own, so that the caches on disk are warm before anything is timed.

A task that fails costs no run, because what it prepares is compiled again where it is timed; one sentence says so.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from types import TracebackType
from typing import Any, Generic, TypeVar

LONGEST_MESSAGE = 200

Task = TypeVar("Task")


def sentence(problem: BaseException) -> str:
    """What an exception says, on one line."""
    lines = str(problem).strip().splitlines() or ["no reason given"]
    return f"{type(problem).__name__}: {lines[0][:LONGEST_MESSAGE].rstrip('.')}"


class Precompilation(Generic[Task]):
    """A process for each share of the tasks, from `with` until `wait` has returned or `seconds` are over.

    The processes use the GPU, so nothing is timed before `wait` has returned; whatever is not done by then is stopped.
    work: a function of a module, as another process imports it by its name.
    """

    def __init__(self, work: Callable[[Task], None], shares: Sequence[Sequence[Task]], seconds: float) -> None:
        self._work, self._shares, self._seconds = work, [share for share in shares if share], seconds
        self._processes: dict[connection.Connection, Any] = {}
        self._ends = 0.0

    def __enter__(self) -> Precompilation[Task]:
        context = multiprocessing.get_context("spawn")
        self._ends = time.monotonic() + self._seconds
        for share in self._shares:
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work_through, args=(self._work, share, theirs), daemon=True)
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            self._processes[ours] = process
        return self

    @property
    def processes(self) -> tuple[Any, ...]:
        """Those that were started and not waited for."""
        return tuple(self._processes.values())

    def wait(self) -> str:
        """Returns when none of the processes uses the GPU any more: "", or the sentence that says what was not compiled."""
        failed: list[str] = []
        running = list(self._processes)
        while running and (left := self._ends - time.monotonic()) > 0:
            for pipe in connection.wait(running, left):
                assert isinstance(pipe, connection.Connection)
                try:
                    failed.append(pipe.recv())
                except (EOFError, OSError):
                    running.remove(pipe)
        for pipe, process in self._processes.items():
            if pipe in running:
                process.kill()
            process.join()
            if pipe not in running and process.exitcode:
                failed.append(f"a process ended with exit status {process.exitcode}")
            pipe.close()
        self._processes = {}
        return _what_failed(failed, len(running), self._seconds)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ends = 0.0
        self.wait()


def _work_through(work: Callable[[Task], None], share: Sequence[Task], failed: connection.Connection) -> None:
    for task in share:
        try:
            work(task)
        except Exception as problem:
            failed.send(f"{task}: {sentence(problem)}")


def _what_failed(failed: Sequence[str], stopped: int, seconds: float) -> str:
    said = []
    if failed:
        said.append(f"{len(failed)} of what was compiled ahead failed, the first: {failed[0]}")
    if stopped:
        said.append(f"compiling ahead was stopped after {seconds:g} s in {stopped} of its processes")
    return "; ".join(said) + ("; what is missing is compiled where it is timed" if said else "")
