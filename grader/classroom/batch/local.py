"""The engine of one machine: its worker processes, and a process of its own for every GPU."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from grader.classroom.batch.engine import CANCELLED, Done, EngineFailed, Event, Failed, Reached
from grader.classroom.batch.tasks import Setup, build_for_gpu, grade_on_cpu, judge
from grader.classroom.batch.workers import FIRST, LATER, WorkerPool
from grader.model import KernelBundle, KernelSource, LabReport, Refusal
from grader.pipeline.grading import GpuRun, run_on_gpu


class LocalEngine:
    """Spreads kernels over a pool of workers and the GPUs of this machine."""

    def __init__(self, setup: Setup, pool: WorkerPool, *, gpu_count: int = 0) -> None:
        """gpu_count 0: everything on the interpreter, in the workers."""
        self._setup, self._pool = setup, pool
        self._events: queue.SimpleQueue[Event | EngineFailed] = queue.SimpleQueue()
        self._bundles: queue.SimpleQueue[tuple[str, KernelSource, KernelBundle] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._cancelled: set[str] = set()
        self._alive = gpu_count
        self._threads = [threading.Thread(target=self._drive, args=(gpu,), daemon=True) for gpu in range(gpu_count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        for _ in self._threads:
            self._bundles.put(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=5)

    def submit(self, key: str, source: KernelSource) -> None:
        self._cancelled.discard(key)
        if self._threads:
            for thread in self._threads:
                if thread.ident is None:  # a class whose verdicts are known needs no GPU
                    thread.start()
            built = self._pool.submit(LATER, build_for_gpu, self._setup, source)
            self._then(built, key, lambda result: self._built(key, source, result))
        else:
            self._then(self._pool.submit(LATER, grade_on_cpu, self._setup, source), key, self._done(key))

    def cancel(self, key: str) -> None:
        self._cancelled.add(key)

    def _wanted(self, key: str) -> bool:
        """Whether a kernel's next stage is to begin; if not, that was its last event."""
        if key in self._cancelled:
            self._cancelled.discard(key)
            self._events.put(Failed(key, CANCELLED))
            return False
        return True

    def next_event(self, seconds: float) -> Event | None:
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, EngineFailed):
            raise event
        return event

    def _then(self, future: Future[Any], key: str, proceed: Callable[[Any], None]) -> None:
        """Goes on with a result; a failure is the kernel's last event."""

        def finished(future: Future[Any]) -> None:
            if future.cancelled():
                return
            failure = future.exception()
            if failure:
                self._events.put(Failed(key, str(failure)))
            else:
                proceed(future.result())

        future.add_done_callback(finished)

    def _done(self, key: str) -> Callable[[LabReport], None]:
        return lambda report: self._events.put(Done(key, report))

    def _built(self, key: str, source: KernelSource, built: KernelBundle | Refusal) -> None:
        self._events.put(Reached(key, "built"))
        if isinstance(built, Refusal):
            self._judge(key, source, built, None)
        elif self._wanted(key):
            self._bundles.put((key, source, built))

    def _judge(self, key: str, source: KernelSource, built: KernelBundle | Refusal, run: GpuRun | None) -> None:
        self._then(self._pool.submit(FIRST, judge, self._setup, source, built, run), key, self._done(key))

    def _drive(self, gpu: int) -> None:
        """One GPU's thread: runs bundle after bundle, judges none."""
        from grader.running.cuda import CudaRunner, RunnerFailed

        setup = self._setup
        with CudaRunner(gpu) as runner:
            while not self._closing.is_set():
                item = self._bundles.get()
                if item is None:
                    return
                key, source, built = item
                if not self._wanted(key):
                    continue
                try:
                    run = run_on_gpu(runner, setup.built(source, built), setup.device, profile=source.profile)
                except RunnerFailed as error:
                    self._bundles.put(item)
                    self._alive -= 1
                    if not self._alive:
                        self._events.put(EngineFailed(f"no GPU is left: {error}"))
                    return
                except Exception as error:  # an error of the grader costs one verdict, not the batch
                    self._events.put(Failed(key, f"the grader failed on it ({error}); grade it by itself"))
                    continue
                self._events.put(Reached(key, "ran"))
                if self._wanted(key):
                    self._judge(key, source, built, run)
