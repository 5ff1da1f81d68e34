"""A course server in this process: the real queue, journal, pages and HTTP; an engine that only takes its time.

The times are those measured on an H200 with 16 cores on 2026-11-23: 43 kernels a minute through four kernels that
are built at once, and 1.4 s of the GPU each.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import re
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from grader.classroom.batch.engine import CANCELLED, Done, Event, Failed, Reached
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.tasks import Setup
from grader.classroom.hidden_cases import Secrets
from grader.classroom.roster import Person
from grader.classroom.server.api import application
from grader.classroom.server.dispatching import Dispatcher
from grader.classroom.server.service import Service
from grader.classroom.server.store import Store
from grader.classroom.server.throttling import Rates, TimedProtocol
from grader.labs import get_lab
from grader.model import KernelSource, LabReport
from tests.reports import H200, gpu_report
from tests.stub_class import Entered, PoolHere

BUILD_SECONDS, BUILDS, GPU_SECONDS = 5.6, 4, 1.4
LABS = ("w8a8", "dds")
MOST = 10**6


def kernel(number: int, body: str = "") -> str:
    """A text with a kernel that no other number has."""
    names = ", ".join(parameter.name for parameter in get_lab("w8a8").parameters)
    tuned = '@triton.autotune(configs=[triton.Config({"BLOCK_M": 16})], key=["M"])'
    head = f"{tuned}\n@triton.jit\ndef W8A8_MM({names}, BLOCK_M: tl.constexpr):\n"
    return f"import triton\nimport triton.language as tl\n\n\n{head}    tl.store(y_ptr, {number}.0){body}\n"


class Timed(Entered):
    """An engine that gives each kernel a number of seconds and a ratio that its text names. Counts what it was given, by key."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed, self._events, self._numbers = speed, list[tuple[float, int, Event]](), itertools.count()
        self._builders, self._gpu = [0.0] * BUILDS, 0.0
        self.given: list[str] = []
        self.cancelled: list[str] = []

    def submit(self, key: str, source: KernelSource) -> None:
        self.given.append(key)
        now = time.monotonic()
        built = max(now, heapq.heappop(self._builders)) + BUILD_SECONDS / self._speed
        heapq.heappush(self._builders, built)
        self._gpu = max(built, self._gpu) + GPU_SECONDS / self._speed
        for moment, event in ((built, Reached(key, "built")), (self._gpu, Done(key, self._report(source)))):
            heapq.heappush(self._events, (moment, next(self._numbers), event))

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)
        ended = {True: Failed(key, CANCELLED)}
        self._events = [(when, at, ended.get(isinstance(event, Done) and event.key == key, event)) for when, at, event in self._events]

    def next_event(self, seconds: float) -> Event | None:
        until = time.monotonic() + seconds
        while not self._events or self._events[0][0] > time.monotonic():
            if time.monotonic() >= until:
                return None
            time.sleep(min(0.002, seconds))
        return heapq.heappop(self._events)[2]

    def _report(self, source: KernelSource) -> LabReport:
        found = re.search(r"(\d+)\.0\)", source.module)
        report, scale = gpu_report().labs["w8a8"], 0.5 + int(found[1] if found else 0) % 100 / 100
        tests = [
            replace(test, metrics={**test.metrics, "ratio": test.metrics["ratio"] * scale}) if "ratio" in test.metrics else test
            for test in report.tests
        ]
        if "WRONG" in source.module:
            tests[0] = replace(tests[0], status="failed", points=0.0, message="3993 of 4096 elements of Y are wrong")
        return replace(report, tests=tuple(tests), source=source)


@dataclass
class World:
    """What a test has in hand: the server's parts, its address, and a token of everybody."""

    service: Service
    engine: Timed
    url: str
    tokens: dict[str, str]

    def client(self, login: str = "ann", **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens.get(login, login)}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30, **options)

    def submit(self, login: str, text: str, number: int = 0) -> httpx.Response:
        with self.client(login) as http:
            return http.post("/api/attempts", json={"lab": "w8a8", "text": text, "request": f"{number:032x}"})

    def wait(self, seconds: float = 20.0) -> None:
        """Until nothing waits or runs."""
        until = time.monotonic() + seconds
        while self.service.store.in_state("queued", "running"):
            assert time.monotonic() < until, "the queue is not worked off"
            time.sleep(0.02)


@contextlib.contextmanager
def course(folder: Path, *, students: int = 3, speed: float = 1000.0, per_minute: float = MOST, grading: bool = True) -> Iterator[World]:
    """A served course with students ann, bob, carl, s3, ... and the instructor prof."""
    names = ["ann", "bob", "carl", *(f"s{number}" for number in range(3, students))][:students]
    store = Store(folder / "course.sqlite")
    tokens = store.admit([Person(name, f"<b>{name}</b> & co") for name in names], "student", 1)
    tokens |= store.admit([Person("prof")], "instructor", 1)
    pool: Any = PoolHere()
    setup, engine = Setup(H200, Secrets(7)), Timed(speed)
    with Journal(folder / "course.sqlite") as journal:
        dispatcher = Dispatcher(store, journal, pool, lambda: engine, setup, 6)
        service = Service(dispatcher, LABS, per_hour=MOST, gpus=("NVIDIA H200",))
        service.rates, service.failures = Rates(per_minute), Rates(MOST)
        config = uvicorn.Config(
            application(service), port=0, http=TimedProtocol, ws="none", lifespan="off", access_log=False, log_level="warning",
            server_header=False, timeout_keep_alive=10, timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        if grading:
            dispatcher.start()
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield World(service, engine, f"http://127.0.0.1:{port}", tokens)
        finally:
            server.should_exit = True
            thread.join(10)
            if grading:
                dispatcher.stop()
            store.close()


def spread(values: list[float]) -> str:
    """Median, 90th percentile and maximum."""
    cuts = statistics.quantiles(values, n=10)
    return f"median {statistics.median(values):.0f} s, 9 of 10 within {cuts[-1]:.0f} s, longest {max(values):.0f} s"
