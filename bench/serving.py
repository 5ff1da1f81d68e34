"""How fast a real course server answers: its queue when it is full, and one submission after the other when it is idle."""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.students import ROOT, own_text
from grader.classroom.server.store import Attempt, Store
from grader.client import Account, Client
from grader.labs import get_lab
from grader.model import Device, Refusal
from grader.reading import read
from grader.unusable import Unusable

START_SECONDS = 120.0


@dataclass(frozen=True)
class ServingRecord:
    """One server on one machine. The queue: `submissions` of distinct right kernels, all of them submitted at once by so many students,
    of which so many were answered within the `seconds` from the first submission to the last answer; seconds that they waited until they
    were begun, and until they were answered. first_seconds: what the very first submission took, before the queue; idle_seconds: what
    each took of those that nothing ran beside, from the client's request to the client's answer. points: the fewest and the most that a
    submission got, in hundredths of what this machine can give."""

    device: str
    date: str
    versions: dict[str, str]
    cores: int
    gpus: int
    labs: tuple[str, ...]
    students: int
    submissions: int
    answered: int
    seconds: float
    a_minute: float
    wait_median: float
    wait_longest: float
    answer_median: float
    answer_longest: float
    first_seconds: float
    idle_seconds: tuple[float, ...]
    idle_median: float
    points: tuple[float, float]


@contextmanager
def served(folder: Path, students: int, arguments: Sequence[str]) -> Iterator[list[Client]]:
    """A real server's process on a port of its own; yields a client for each student."""
    roster, tokens, course = folder / "roster.csv", folder / "tokens.csv", folder / "course.sqlite"
    roster.write_text("\n".join(["login", *(f"s{number}" for number in range(students))]), encoding="utf-8")
    grader = [sys.executable, "-m", "grader"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    made = [*grader, "tokens", str(course), "--roster", str(roster), "--out", str(tokens)]
    subprocess.run(made, cwd=folder, env=environment, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*grader, "serve", str(course), "--port", str(port), "--per-hour", "1000", *arguments]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        with tokens.open(encoding="utf-8") as file:
            clients = [Client(Account(f"http://127.0.0.1:{port}", row["token"])) for row in csv.DictReader(file)]
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                clients[0].attempts()
                break
            except Unusable:
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((folder / "log").read_text(encoding="utf-8", errors="replace")) from None
                time.sleep(0.2)
        yield clients
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Load:
    """What a server is asked: so many submissions at once by so many students, then `idle` ones one after the other. limit: seconds that
    the queue is waited for. arguments: of `serve`, with the labs among them."""

    labs: Sequence[str]
    students: int
    submissions: int
    idle: int
    limit: float
    arguments: Sequence[str]


@dataclass(frozen=True)
class _Submitter:
    """Submits right kernels of which no two are the same."""

    folder: Path
    labs: Sequence[str]
    numbers: Iterator[int]

    def submit(self, client: Client) -> int:
        """The attempt's number."""
        number = next(self.numbers)
        lab = self.labs[number % len(self.labs)]
        path = self.folder / str(number) / f"{lab}.py"
        path.parent.mkdir()
        path.write_text(own_text(lab, number), encoding="utf-8")
        source = read(path, [get_lab(lab)], all_labs=True).labs[lab]
        assert not isinstance(source, Refusal), source.message
        return int(client.submit(source)["id"])

    def seconds_alone(self, client: Client) -> float:
        """From a submission to its answer."""
        began = time.monotonic()
        client.follow(self.submit(client))
        return round(time.monotonic() - began, 1)


def _answered(store: Store, queued: Set[int], limit: float) -> list[Attempt]:
    """Which of the queued attempts are answered within `limit` seconds; those that have not begun by then are cancelled."""
    until = time.monotonic() + limit
    while store.in_state("queued", "running") and time.monotonic() < until:
        time.sleep(0.2)
    done = [one for one in store.in_state("done") if one.id in queued]
    for left in store.in_state("queued"):
        store.cancel(left.id)
    while store.in_state("running"):
        time.sleep(0.2)
    return done


def measure(device: Device, gpus: int, load: Load, listen: Callable[[str], None]) -> ServingRecord:
    """Submits one kernel, then all at once, then the last ones one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), itertools.count()
        submitter = _Submitter(folder, load.labs, numbers)
        with served(folder, load.students, ["--device", device.kind, *load.arguments]) as clients:
            store = Store(folder / "course.sqlite")
            first = submitter.seconds_alone(clients[0])
            listen(f"the first submission: {first:.1f} s")
            with ThreadPoolExecutor(load.students) as pool:
                each = (clients[at % load.students] for at in range(load.submissions))
                queued = set(pool.map(submitter.submit, each))
            done = _answered(store, queued, load.limit)
            if not done:
                raise RuntimeError((folder / "log").read_text(encoding="utf-8", errors="replace"))
            seconds = max(map(moment, done)) - min(one.submitted_at for one in done)
            listen(f"the queue: {len(done)} of {load.submissions} in {seconds:.0f} s, {60 * len(done) / seconds:.1f} a minute")
            alone = tuple(submitter.seconds_alone(clients[at % load.students]) for at in range(load.idle))
            listen(f"idle: {alone} s")
            ended = store.in_state("done", "failed")
            store.close()
    return _record(device, gpus, load, done, ended, (first, *alone))


def _record(
    device: Device, gpus: int, load: Load, done: Sequence[Attempt], ended: Sequence[Attempt], alone: Sequence[float]
) -> ServingRecord:
    """done: what the queue answered; ended: all that was answered; alone: seconds of the submissions that nothing ran beside."""
    import torch
    import triton

    seconds = max(map(moment, done)) - min(one.submitted_at for one in done)
    shares = [100 * one.answer.points / (one.answer.gradable or 1.0) for one in ended if one.answer]
    waits = [one.started_at - one.submitted_at for one in done if one.started_at]
    answers = [moment(one) - one.submitted_at for one in done]
    return ServingRecord(
        device=device.name if device.kind == "cuda" else "no GPU",
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__},
        cores=len(os.sched_getaffinity(0)),
        gpus=gpus,
        labs=tuple(load.labs),
        students=load.students,
        submissions=load.submissions,
        answered=len(done),
        seconds=round(seconds, 1),
        a_minute=round(60 * len(done) / seconds, 1),
        wait_median=round(statistics.median(waits), 1),
        wait_longest=round(max(waits), 1),
        answer_median=round(statistics.median(answers), 1),
        answer_longest=round(max(answers), 1),
        first_seconds=alone[0],
        idle_seconds=tuple(alone[1:]),
        idle_median=round(statistics.median(alone[1:] or [0.0]), 1),
        points=(round(min(shares), 1), round(max(shares), 1)),
    )


def moment(attempt: Attempt) -> float:
    """When an attempt ended."""
    assert attempt.finished_at is not None
    return attempt.finished_at


def to_json(record: ServingRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"
