"""From the queue through the engine to answers: one thread, which owns the journal as a batch does."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from grader.classroom.batch.coordinating import gave_up, tiers_of
from grader.classroom.batch.engine import Done, Engine, EngineFailed, Failed, Reached, Starter
from grader.classroom.batch.journal import Journal, JournalFull, verdict_key, work_key
from grader.classroom.batch.tasks import Setup
from grader.classroom.batch.verdicts import anonymous
from grader.classroom.batch.workers import NEXT, SHORT_SECONDS, WorkerPool
from grader.classroom.server.kernel_text import answer, read_text
from grader.classroom.server.store import Attempt, Store
from grader.judging.points import measured_for
from grader.model import KernelSource, LabReport, Refusal

POLL_SECONDS = 0.1
PAUSE_SECONDS = 10.0
"""After an engine that failed or a disk that is full, before it is tried again."""
STAGES = {"built": "compiled, waiting for the GPU", "ran": "ran on the GPU, being judged"}
PAUSED, DRAINING = "server_paused", "server_draining"
"""Settings: nothing new is begun; nothing new is accepted."""


class Dispatcher(threading.Thread):
    """Begins attempts in the queue's order, as long as fewer than `slots` kernels are on their way, and ends each with an answer.

    stages: by its number, where an attempt is that runs; whoever watches one looks there. An attempt counts as running until its verdict
    is in the journal, so whatever kills this process leaves it in the queue, and a verdict that is in the journal is never computed again.
    """

    def __init__(
        self, store: Store, journal: Journal, pool: WorkerPool, start_engine: Starter, setup: Setup, slots: int
    ) -> None:
        super().__init__(daemon=True, name="dispatcher")
        self.store, self.journal, self.pool, self.setup = store, journal, pool, setup
        self._start_engine, self._slots = start_engine, slots
        self._reading: list[tuple[Attempt, Future[Any]]] = []
        self._kernels: dict[str, list[tuple[Attempt, KernelSource]]] = {}
        self._cancelled: set[str] = set()
        self._ending = threading.Event()
        self.stages: dict[int, str] = {}
        self.trouble = ""

    def stop(self) -> None:
        self._ending.set()
        self.join(timeout=10)

    def run(self) -> None:
        while not self._ending.is_set():
            self.store.requeue()
            self._kernels, self._reading, self._cancelled, self.stages = {}, [], set(), {}
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
        self._drop_cancelled(engine)
        while len(self._reading) + len(self._kernels) < self._slots and not self.store.setting(PAUSED):
            busy = {attempt.login for waiting in self._kernels.values() for attempt, _ in waiting}
            attempt = self.store.begin_next(busy)
            if attempt is None:
                break
            self.stages[attempt.id] = "being read"
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
                for attempt in self._watching(event.key):
                    self.stages[attempt.id] = STAGES[event.stage]
            else:
                self._conclude(engine, event)

    def _drop_cancelled(self, engine: Engine) -> None:
        """Forgets the attempts that were cancelled since they began, and the kernels that nobody waits for any more."""
        running = {attempt.id for attempt in self.store.in_state("running")}
        self.stages = {number: stage for number, stage in self.stages.items() if number in running}
        for key in self._kernels.keys() - self._cancelled:
            if not self._watching(key):
                self._cancelled.add(key)
                engine.cancel(key)

    def _watching(self, key: str) -> list[Attempt]:
        return [attempt for attempt, _ in self._kernels[key] if attempt.id in self.stages]

    def _send(self, engine: Engine, attempt: Attempt, reading: Future[Any]) -> None:
        """A kernel that was read goes to the engine, unless its verdict is known or on its way."""
        why = reading.exception()
        source = Refusal("not_graded", f"the text could not be read: {why}") if why else reading.result()
        if isinstance(source, Refusal):
            self._end(attempt, source)
            return
        source = replace(source, profile=attempt.profile)
        device = self.setup.device
        key = verdict_key(source, device, self.setup.secrets)
        known = self.journal.get(key)
        if known is not None and measured_for(known, tiers_of(device)):
            self.journal.use(work_key(source), self._counted_key(source), device)
            self._end(attempt, known, source, key)
        elif attempt.id in self.stages:
            self.stages[attempt.id] = "being graded"
            self._kernels.setdefault(key, []).append((attempt, source))
            if len(self._kernels[key]) == 1:
                engine.submit(key, anonymous(source))

    def _conclude(self, engine: Engine, event: Done | Failed) -> None:
        """A verdict is in the journal before anybody hears of it."""
        source = self._kernels[event.key][0][1]
        report: LabReport | Refusal
        if isinstance(event, Done):
            report = event.report
            self.journal.put(event.key, report)
            counted = self._counted_key(source)
            if self.journal.get(counted) is None:
                self.journal.put(counted, replace(report, profile=()))
            self.journal.use(work_key(source), counted, self.setup.device)
        elif event.key in self._cancelled and self._watching(event.key):  # somebody submitted it since
            self._cancelled.discard(event.key)
            engine.submit(event.key, anonymous(source))
            return
        else:
            report = Refusal("not_graded", event.reason)
        self._cancelled.discard(event.key)
        for attempt, source in self._kernels.pop(event.key):
            self._end(attempt, report, source, event.key)

    def _counted_key(self, source: KernelSource) -> str:
        """The key of what counts at the deadline: a verdict with a profile counts as one without."""
        return verdict_key(replace(source, profile=False), self.setup.device, self.setup.secrets)

    def _end(
        self, attempt: Attempt, report: LabReport | Refusal, source: KernelSource | None = None, key: str = ""
    ) -> None:
        """Tells what became of an attempt. key: that of its verdict, if it has one."""
        if attempt.id not in self.stages:  # it was cancelled
            return
        try:
            found = answer(report, source, attempt.lab, self.setup.device)
        except Exception as error:  # a report that cannot be told is that attempt's alone
            found = answer(Refusal("not_graded", gave_up(error)), None, attempt.lab, self.setup.device)
        without = found.status == "not_graded"
        self.store.finish(attempt.id, "failed" if without else "done", found, "" if without else key)
        del self.stages[attempt.id]
        waited = time.time() - attempt.submitted_at
        print(f"attempt {attempt.id}, {attempt.lab}: {found.status} after {waited:.1f} s", file=sys.stderr, flush=True)
