"""Processes of this machine that do a batch's work: reading, building, judging, drawing. They outlive what kills one."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from grader.classroom.batch.workspace import own_folder
from grader.late_torch import stand_in
from grader.sandbox.supervisor import CannotStart, ProcessDied, ProcessTimeout, Supervised

ATTEMPTS = 3
"""How often work is tried when the grader's own process below it dies; the last time nothing else is running."""

PAUSE = 0.5
"""Seconds after the first start that failed; longer after each further one."""

TASK_SECONDS = 1800.0
SHORT_SECONDS = 300.0
"""Limit of what takes seconds: unpacking, reading, judging, drawing, comparing."""

FIRST, NEXT, LATER, LAST = range(4)
"""Priorities: what waits for a GPU's answer, what is short, what takes long, and what nobody waits for yet."""


NICE = 5
"""How far workers give way: a GPU's process that waits for a core keeps the GPU idle."""

SHARED = ["grader.classroom.batch.tasks", "triton"]
"""What every worker needs and takes seconds to import: one process imports it, and the workers are forked from that."""

Result = TypeVar("Result")


class WorkFailed(Exception):
    """A function gave no result; the message is what a human reads."""


@dataclass(order=True)
class _Task:
    priority: int
    number: int
    future: Future[Any] = field(compare=False)
    seconds: float = field(compare=False)
    function: Callable[..., Any] = field(compare=False)
    arguments: tuple[Any, ...] = field(compare=False)


def prepare() -> None:
    """Begins to import what workers share, in the background; for the main thread."""
    forkserver.set_forkserver_preload(SHARED)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what it starts with: Ctrl-C is for the coordinator alone
    place, tempfile.tempdir = tempfile.gettempdir(), str(own_folder())
    try:
        forkserver.ensure_running()  # its socket lies in a folder that goes even when this process is killed
    finally:
        tempfile.tempdir = place
        signal.signal(signal.SIGINT, previous)


class WorkerPool:
    """Some processes, each started when there is work for it. Use as a context manager; leaving it ends them."""

    def __init__(self, size: int, *, light: bool = False) -> None:
        """light: without anything of what workers share, and without torch as long as nothing uses it; forked where nothing else runs."""
        self._light = self._prepared = light
        self._beside: WorkerPool | None = None
        self._tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._entering, self._room = threading.Lock(), threading.Semaphore(size)
        self._forks = light and threading.active_count() == 1
        method = ("fork" if self._forks else "spawn") if light else "forkserver"
        self._processes = [Supervised(_serve, light, method=method) for _ in range(size)]
        self._threads = [
            threading.Thread(target=self._work, args=(process,), daemon=True) for process in self._processes
        ]

    def __enter__(self) -> Self:
        if not self._light:
            self._beside = WorkerPool(len(self._processes), light=True).__enter__()
        for process in self._processes if self._forks else ():
            with contextlib.suppress(CannotStart):
                process.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._beside:
            self._beside.__exit__(kind, error, tb)
        self._closing.set()
        for process in self._processes:
            process.kill()
            self._put(FIRST, 0.0, print)  # wakes a thread that waits for work
        for thread in self._threads:
            thread.join(timeout=5)
        while True:
            try:
                self._tasks.get_nowait().future.cancel()
            except queue.Empty:
                return

    def submit(
        self,
        priority: int,
        function: Callable[..., Result],
        *arguments: Any,
        seconds: float = TASK_SECONDS,
        light: bool = False,
    ) -> Future[Result]:
        """Queues a call of an importable function. The future has its result, or WorkFailed; it is cancelled at the end.

        A process that dies is replaced, and the call is tried again, ATTEMPTS times in all. `seconds`: when it has no
        result by then, its process is killed and the call has failed. The first call is for the main thread: it begins what
        the processes are forked from. `light`: in as many processes more, for what needs nothing of what workers share: unpacking, drawing.
        """
        if light and self._beside:
            return self._beside.submit(priority, function, *arguments, seconds=seconds)
        if not self._prepared:
            prepare()
            self._prepared = True
        return self._put(priority, seconds, function, *arguments)

    def _put(self, priority: int, seconds: float, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        future: Future[Result] = Future()
        self._tasks.put(_Task(priority, next(self._numbers), future, seconds, function, arguments))
        return future

    def _work(self, process: Supervised) -> None:
        while not self._closing.is_set():
            task = self._tasks.get()
            with contextlib.suppress(InvalidStateError):  # which must not end the thread that works
                try:
                    task.future.set_result(self._call(process, task))
                except WorkFailed as failure:
                    if self._closing.is_set():
                        task.future.cancel()
                    else:
                        task.future.set_exception(failure)
        process.stop()

    @contextlib.contextmanager
    def _entered(self, *, alone: bool) -> Iterator[None]:
        """All processes may work at once, or one alone: work that killed its process twice may have been short of memory."""
        places = len(self._processes) if alone else 1
        with self._entering:  # whoever waits for all places lets nobody else take one
            for _ in range(places):
                self._room.acquire()
        try:
            yield
        finally:
            self._room.release(places)

    def _call(self, process: Supervised, task: _Task) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._entered(alone=attempt == ATTEMPTS):
                    if self._closing.is_set():
                        break
                    fine, answer = process.ask((task.function, task.arguments), task.seconds)
            except CannotStart:  # a fork server that was killed is missed only a moment later
                self._closing.wait(PAUSE * attempt)
                continue
            except ProcessDied:
                continue
            except ProcessTimeout:
                raise WorkFailed(f"no answer within {task.seconds / 60:.0f} minutes; grade it by itself") from None
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
    return f"the grader's own process died {deaths} times while it worked on this; grade it by itself to see why"


def _serve(connection: Connection, light: bool) -> None:
    """A worker's life: calls the functions that it is asked for; an exception is an answer too. It gives way to the processes of GPUs,
    whose cores do not wait. light: it imports torch only where it uses it."""
    if light:
        stand_in()
    else:
        import torch

        torch.set_num_threads(1)
    os.nice(NICE)
    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except Exception as error:  # told to the coordinator, who names the work it belonged to
            answer = False, f"{type(error).__name__}: {error}"
        connection.send(answer)
