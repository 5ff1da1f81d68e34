"""The engine of one machine: a worker process a core, and a process of its own for every GPU."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from grader.batch.engine import ATTEMPTS, Done, EngineFailed, Event, Failed, Reached, given_up
from grader.batch.tasks import Setup, build_for_gpu, grade_on_cpu, judge, serve
from grader.devices import gpus
from grader.model import KernelBundle, KernelSource, Refusal
from grader.supervised import CannotStart, ProcessDied, ProcessTimeout, Supervised

TASK_SECONDS = 1800.0
JUDGE, BUILD = 0, 1


def visible_gpus() -> int:
    """How many GPUs may be used: those of CUDA_VISIBLE_DEVICES, or all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return len([name for name in visible.split(",") if name]) if visible is not None else len(gpus())


class Worker:
    """One supervised process that calls the functions of grader.batch.tasks."""

    def __init__(self) -> None:
        self._process = Supervised(serve)
        self._closed = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result. A process that dies is replaced; after ATTEMPTS deaths it raises ProcessDied.

        Raises RuntimeError with the words of an exception in the function.
        """
        for attempt in range(1, ATTEMPTS + 1):
            if self._closed:
                raise ProcessDied
            try:
                fine, answer = self._process.ask((function, arguments), TASK_SECONDS)
            except (ProcessDied, CannotStart):
                if attempt == ATTEMPTS:
                    raise ProcessDied from None
                continue
            if not fine:
                raise RuntimeError(answer)
            return answer
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Ends the process, from any thread; a call under way raises ProcessDied, and so does every later one."""
        self._closed = True
        self._process.kill()


@dataclass(order=True)
class _Job:
    priority: int
    number: int
    key: str = field(compare=False)
    work: Callable[[Worker], None] = field(compare=False)


class LocalEngine:
    """Spreads kernels over the cores and GPUs of this machine."""

    def __init__(self, setup: Setup, *, jobs: int, gpu_count: int = 0) -> None:
        """gpu_count 0: everything on the interpreter, in the workers."""
        self._setup = setup
        self._events: queue.SimpleQueue[Event | EngineFailed] = queue.SimpleQueue()
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._bundles: queue.SimpleQueue[tuple[str, KernelSource, KernelBundle] | None] = queue.SimpleQueue()
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._workers = [Worker() for _ in range(jobs)]
        self._gpus = self._alive = gpu_count
        self._threads = [threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in self._workers]
        self._threads += [threading.Thread(target=self._drive, args=(gpu,), daemon=True) for gpu in range(gpu_count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        for _ in range(self._gpus):
            self._bundles.put(None)
        for worker in self._workers:
            worker.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def submit(self, key: str, source: KernelSource) -> None:
        first = self._build if self._gpus else self._interpret
        self._queue(BUILD, key, lambda worker: first(worker, key, source))

    def next_event(self, seconds: float) -> Event | None:
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, EngineFailed):
            raise event
        return event

    def _queue(self, priority: int, key: str, work: Callable[[Worker], None]) -> None:
        self._jobs.put(_Job(priority, next(self._numbers), key, work))

    def _work(self, worker: Worker) -> None:
        while not self._closing.is_set():
            try:
                job = self._jobs.get(timeout=0.5)
            except queue.Empty:
                continue
            try:
                job.work(worker)
            except ProcessDied:
                if not self._closing.is_set():
                    self._events.put(Failed(job.key, given_up(ATTEMPTS)))
            except ProcessTimeout:
                self._events.put(
                    Failed(job.key, f"no verdict within {TASK_SECONDS / 60:.0f} minutes; grade it by itself")
                )
            except Exception as error:  # an error of the grader costs one verdict, not the batch
                if not self._closing.is_set():
                    self._events.put(Failed(job.key, f"the grader failed on this kernel ({error}); grade it by itself"))

    def _interpret(self, worker: Worker, key: str, source: KernelSource) -> None:
        self._events.put(Done(key, worker.call(grade_on_cpu, self._setup, source)))

    def _build(self, worker: Worker, key: str, source: KernelSource) -> None:
        built: KernelBundle | Refusal = worker.call(build_for_gpu, self._setup, source)
        self._events.put(Reached(key, "built"))
        if isinstance(built, Refusal):
            self._judge(worker, key, source, built, None)
        else:
            self._bundles.put((key, source, built))

    def _judge(self, worker: Worker, key: str, source: KernelSource, built: KernelBundle | Refusal, run: Any) -> None:
        self._events.put(Done(key, worker.call(judge, self._setup, source, built, run)))

    def _drive(self, gpu: int) -> None:
        """One GPU's thread: runs bundle after bundle, judges none."""
        from grader.grading import run_on_gpu
        from grader.running.cuda import CudaRunner, RunnerFailed

        setup = self._setup
        with CudaRunner(gpu) as runner:
            while not self._closing.is_set():
                item = self._bundles.get()
                if item is None:
                    return
                key, source, built = item
                try:
                    run = run_on_gpu(runner, setup.lab(source.lab_id), built, setup.secrets.seed, setup.device)
                except RunnerFailed as error:
                    self._bundles.put(item)
                    self._alive -= 1
                    if not self._alive:
                        self._events.put(EngineFailed(f"no GPU is left: {error}"))
                    return
                except Exception as error:  # an error of the grader costs one verdict, not the batch
                    self._events.put(Failed(key, f"the grader failed on this kernel ({error}); grade it by itself"))
                    continue
                self._events.put(Reached(key, "ran"))
                self._queue(
                    JUDGE, key,
                    lambda worker, key=key, source=source, built=built, run=run: self._judge(  # type: ignore[misc]
                        worker, key, source, built, run
                    ),
                )  # fmt: skip
