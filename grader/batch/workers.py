"""Processes of this machine that do a batch's work: reading, building, judging, drawing. They outlive what kills one."""

from __future__ import annotations

import itertools
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from grader.supervised import CannotStart, ProcessDied, ProcessTimeout, Supervised

ATTEMPTS = 3
"""How often work is tried when the grader's own process below it dies; a dead sandbox is a verdict at once."""

TASK_SECONDS = 1800.0
FIRST, NEXT, LATER, LAST = range(4)
"""Priorities: what waits for a GPU's answer, what is short, what takes long, and what nobody waits for yet."""


SHARED = ["grader.batch.tasks", "triton", "nbformat"]
"""What every worker needs and takes seconds to import: one process imports it, and the workers are forked from that."""

Result = TypeVar("Result")


class WorkFailed(Exception):
    """A function gave no result; the message is what a human reads."""


@dataclass(order=True)
class _Task:
    priority: int
    number: int
    future: Future[Any] = field(compare=False)
    function: Callable[..., Any] = field(compare=False)
    arguments: tuple[Any, ...] = field(compare=False)


def prepare() -> None:
    """Begins to import what workers share, in the background; for the main thread, the sooner the better."""
    forkserver.set_forkserver_preload(SHARED)
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what it starts with: Ctrl-C is for the coordinator alone
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, kept)


class WorkerPool:
    """Some processes, each started when there is work for it. Use as a context manager; leaving it ends them."""

    def __init__(self, size: int) -> None:
        prepare()
        self._tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._processes = [Supervised(_serve, method="forkserver") for _ in range(size)]
        self._threads = [
            threading.Thread(target=self._work, args=(process,), daemon=True) for process in self._processes
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        for process in self._processes:
            process.kill()
            self.submit(FIRST, print)  # wakes a thread that waits for work
        for thread in self._threads:
            thread.join(timeout=5)
        while True:
            try:
                self._tasks.get_nowait().future.cancel()
            except queue.Empty:
                return

    def submit(self, priority: int, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Queues a call of an importable function. The future has its result, or WorkFailed; it is cancelled at the end.

        A process that dies is replaced, and the call is tried again, ATTEMPTS times in all.
        """
        future: Future[Result] = Future()
        self._tasks.put(_Task(priority, next(self._numbers), future, function, arguments))
        return future

    def _work(self, process: Supervised) -> None:
        while not self._closing.is_set():
            task = self._tasks.get()
            try:
                result = self._call(process, task.function, task.arguments)
            except WorkFailed as failure:
                if self._closing.is_set():
                    task.future.cancel()
                else:
                    task.future.set_exception(failure)
            else:
                task.future.set_result(result)
        process.stop()

    def _call(self, process: Supervised, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        for _ in range(ATTEMPTS):
            if self._closing.is_set():
                break
            try:
                fine, answer = process.ask((function, arguments), TASK_SECONDS)
            except (ProcessDied, CannotStart):
                continue
            except ProcessTimeout:
                raise WorkFailed(f"no answer within {TASK_SECONDS / 60:.0f} minutes; grade it by itself") from None
            except Exception as error:  # an error of the grader costs one piece of work, not the batch
                raise WorkFailed(
                    f"the grader failed on it ({type(error).__name__}: {error}); grade it by itself"
                ) from None
            if fine:
                return answer
            raise WorkFailed(f"the grader failed on it ({answer}); grade it by itself")
        raise WorkFailed(given_up(ATTEMPTS))


def given_up(deaths: int) -> str:
    """Why work was given up whose process died again and again."""
    return f"the grader's own process died {deaths} times while it worked on this; grade it by itself and look"


def _serve(connection: Connection) -> None:
    """A worker's life: calls the functions that it is asked for; an exception is an answer too."""
    import torch

    torch.set_num_threads(1)
    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_called(function, arguments))


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except Exception as error:  # told to the coordinator, who names the work it belonged to
        return False, f"{type(error).__name__}: {error}"
