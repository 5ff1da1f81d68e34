"""From the queue through the engine to answers: one thread, which owns the journal as a batch does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from grader.classroom.batch.coordinating import gave_up, tiers_of
from grader.classroom.batch.engine import Done, Engine, EngineFailed, Failed, Reached
from grader.classroom.batch.journal import Journal, JournalFull, verdict_key, work_key
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.verdicts import anonymous
from grader.classroom.batch.workers import NEXT, SHORT_SECONDS, WorkerPool
from grader.classroom.server.kernel_text import answer, read_text
from grader.classroom.server.store import Attempt, State, Store
from grader.judging.points import measured_for
from grader.model import KernelSource, LabReport, Refusal

POLL_SECONDS = 0.1
PAUSE_SECONDS = 10.0
"""After an engine that failed or a disk that is full, before it is tried again."""
STAGES = {"built": "compiled, waiting for the GPU", "ran": "ran on the GPU, being judged"}
PAUSED, DRAINING = "server_paused", "server_draining"
"""Settings: nothing new is begun; nothing new is accepted."""


@dataclass
class _Kernel:
    """A kernel on its way through the engine, and every attempt that waits for its verdict."""

    work: str
    attempts: list[tuple[Attempt, KernelSource]] = field(default_factory=list)


class Dispatcher(threading.Thread):
    """Begins attempts in the queue's order, at most `slots` at a time, and ends each with an answer.

    changed: called with an attempt's number whenever there is news of it. An attempt counts as running until its verdict is in the
    journal, so whatever kills this process leaves it in the queue, and a verdict that is in the journal is never computed again.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal,
        pool: WorkerPool,
        start_engine: Callable[[], AbstractContextManager[Engine]],
        setup: Setup,
        slots: int,
    ) -> None:
        super().__init__(daemon=True, name="dispatcher")
        self.store, self.journal, self.pool, self.setup = store, journal, pool, setup
        self._start_engine, self._slots = start_engine, slots
        self.changed: Callable[[int], None] = lambda number: None
        self._reading: list[tuple[Attempt, Future[Any]]] = []
        self._kernels: dict[str, _Kernel] = {}
        self._ending = threading.Event()
        self.stages: dict[int, str] = {}
        self.trouble = ""

    def stop(self) -> None:
        self._ending.set()
        self.join(timeout=10)

    def run(self) -> None:
        while not self._ending.is_set():
            self.store.requeue()
            self._kernels, self._reading, self.stages = {}, [], {}
            try:
                with self._start_engine() as engine:
                    while not self._ending.is_set():
                        self._step(engine)
                        self.trouble = ""
            except Exception as error:  # an engine that failed, a disk that is full: the queue waits and is tried again
                expected = isinstance(error, EngineFailed | JournalFull)
                self.trouble = str(error) if expected else gave_up(error)
                print(f"the queue stops for {PAUSE_SECONDS:g} s: {self.trouble}", file=sys.stderr, flush=True)
                self._ending.wait(PAUSE_SECONDS)

    def _step(self, engine: Engine) -> None:
        while len(self.stages) < self._slots and not self.store.setting(PAUSED):
            attempt = self.store.begin_next()
            if attempt is None:
                break
            self._tell(attempt.id, "being read")
            kernel = attempt.lab, *self.store.content(attempt.id)
            self._reading.append((attempt, self.pool.submit(NEXT, read_text, *kernel, seconds=SHORT_SECONDS)))
        read = [one for one in self._reading if one[1].done()]
        self._reading = [one for one in self._reading if one not in read]
        for attempt, reading in read:
            self._send(engine, attempt, reading)
        seconds = POLL_SECONDS
        while (event := engine.next_event(seconds)) is not None:
            seconds = 0.0
            if isinstance(event, Reached):
                for attempt, _ in self._kernels[event.key].attempts:
                    self._tell(attempt.id, STAGES[event.stage])
            else:
                self._conclude(event)

    def _send(self, engine: Engine, attempt: Attempt, reading: Future[Any]) -> None:
        """A kernel that was read goes to the engine, unless its verdict is known or on its way."""
        failure = reading.exception()
        if failure is not None:
            self._end(attempt, "failed", Refusal("not_graded", f"the text could not be read: {failure}"), None)
            return
        source: KernelSource | Refusal = reading.result()
        if isinstance(source, Refusal):
            self._end(attempt, "failed" if source.status == "not_graded" else "done", source, None)
            return
        source = replace(source, profile=attempt.profile)
        device = self.setup.device
        key = verdict_key(source, device, self.setup.secrets)
        known = self.journal.get(key)
        if known is not None and measured_for(known.report, tiers_of(device)):
            self.journal.use(work_key(source), self._counted_key(source), device)
            self._end(attempt, "done", known.report, source, key)
        elif key in self._kernels:
            self._kernels[key].attempts.append((attempt, source))
            self._tell(attempt.id, "being graded")
        else:
            self._kernels[key] = _Kernel(work_key(source), [(attempt, source)])
            self._tell(attempt.id, "being graded")
            engine.submit(key, anonymous(source))

    def _conclude(self, event: Done | Failed) -> None:
        """A verdict is in the journal before anybody hears of it."""
        kernel = self._kernels.pop(event.key)
        report: LabReport | Refusal
        state: State
        if isinstance(event, Done):
            state, report = "done", self.journal.put(event.key, replace(event.report, source=None)).report
            counted = self._counted_key(kernel.attempts[0][1])
            if self.journal.get(counted) is None:
                self.journal.put(counted, replace(event.report, source=None, profile=()))
            self.journal.use(kernel.work, counted, self.setup.device)
        else:
            state, report = "failed", Refusal("not_graded", event.reason)
        for attempt, source in kernel.attempts:
            self._end(attempt, state, report, source, event.key if state == "done" else "")

    def _counted_key(self, source: KernelSource) -> str:
        """The key of what counts at the deadline: a verdict with a profile counts as one without."""
        return verdict_key(replace(source, profile=False), self.setup.device, self.setup.secrets)

    def _end(
        self, attempt: Attempt, state: State, report: LabReport | Refusal, source: KernelSource | None, key: str = ""
    ) -> None:
        try:
            found = answer(report, source, attempt.lab, self.setup.device)
        except Exception as error:  # a report that cannot be told is that attempt's alone
            state, key = "failed", ""
            found = answer(Refusal("not_graded", gave_up(error)), None, attempt.lab, self.setup.device)
        self.store.finish(attempt.id, state, found, key)
        self.stages.pop(attempt.id, None)
        waited = time.time() - attempt.submitted_at
        print(f"attempt {attempt.id}, {attempt.lab}: {found.status} after {waited:.1f} s", file=sys.stderr, flush=True)
        self.changed(attempt.id)

    def _tell(self, number: int, stage: str) -> None:
        self.stages[number] = stage
        self.changed(number)
