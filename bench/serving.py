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
from collections.abc import Callable, Iterator, Sequence
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


def measure(
    device: Device,
    gpus: int,
    labs: Sequence[str],
    students: int,
    submissions: int,
    idle: int,
    limit: float,
    arguments: Sequence[str],
    listen: Callable[[str], None],
) -> ServingRecord:
    """Submits one kernel, then all at once, then the last ones one after the other. limit: seconds that the queue is waited for.

    Not split: the functions inside share one course, its server and its clients.
    """
    import torch
    import triton

    cores, numbers = len(os.sched_getaffinity(0)), itertools.count()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def submit(client: Client, number: int) -> int:
            lab = labs[number % len(labs)]
            path = folder / str(number) / f"{lab}.py"
            path.parent.mkdir()
            path.write_text(own_text(lab, number), encoding="utf-8")
            source = read(path, [get_lab(lab)], all_labs=True).labs[lab]
            assert not isinstance(source, Refusal), source.message
            return int(client.submit(source)["id"])

        def alone(client: Client) -> float:
            began = time.monotonic()
            client.follow(submit(client, next(numbers)))
            return round(time.monotonic() - began, 1)

        chosen = ["--device", device.kind, *(word for lab in labs for word in ("--lab", lab)), *arguments]
        with served(folder, students, chosen) as clients:
            store = Store(folder / "course.sqlite")
            first = alone(clients[0])
            listen(f"the first submission: {first:.1f} s")
            with ThreadPoolExecutor(students) as pool:
                posted = [pool.submit(submit, clients[at % students], next(numbers)) for at in range(submissions)]
                queued = {one.result() for one in posted}
            until = time.monotonic() + limit
            while store.in_state("queued", "running") and time.monotonic() < until:
                time.sleep(0.2)
            done = [one for one in store.in_state("done") if one.id in queued]
            for left in store.in_state("queued"):
                store.cancel(left.id)
            while store.in_state("running"):
                time.sleep(0.2)
            if not done:
                raise RuntimeError((folder / "log").read_text(encoding="utf-8", errors="replace"))
            began = min(one.submitted_at for one in done)
            seconds = max(moment(one) for one in done) - began
            listen(f"the queue: {len(done)} of {submissions} in {seconds:.0f} s, {60 * len(done) / seconds:.1f} a minute")
            alone_each = tuple(alone(clients[at % students]) for at in range(idle))
            listen(f"idle: {alone_each} s")
            ended = store.in_state("done", "failed")
            store.close()
    shares = [100 * one.answer.points / (one.answer.gradable or 1.0) for one in ended if one.answer]
    waits = [one.started_at - one.submitted_at for one in done if one.started_at]
    answers = [moment(one) - one.submitted_at for one in done]
    return ServingRecord(
        device.name if device.kind == "cuda" else "no GPU",
        datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__},
        cores,
        gpus,
        tuple(labs),
        students,
        submissions,
        len(done),
        round(seconds, 1),
        round(60 * len(done) / seconds, 1),
        round(statistics.median(waits), 1),
        round(max(waits), 1),
        round(statistics.median(answers), 1),
        round(max(answers), 1),
        first,
        alone_each,
        round(statistics.median(alone_each or [0.0]), 1),
        (round(min(shares), 1), round(max(shares), 1)),
    )


def moment(attempt: Attempt) -> float:
    """When an attempt ended."""
    assert attempt.finished_at is not None
    return attempt.finished_at


def to_json(record: ServingRecord) -> str:
    return json.dumps(asdict(record), indent=1) + "\n"
