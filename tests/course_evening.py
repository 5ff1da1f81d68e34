"""An evening on the course server, and SIGKILL while it goes on: `python -m tests.course_evening --help`.

`evening`: students submit in three hours, compressed; prints how long answers took. `kills`: the server is a process that is killed and
started again while submissions come in; prints what was lost and what was graded twice, which has to be nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

from grader.classroom.roster import Person
from grader.classroom.server.store import Store
from tests.course_server import BUILD_SECONDS, course, kernel, spread

HOURS = 3.0
SHAPES = ("even", "before the deadline")
"""How submissions come: evenly, or half of them in the last half hour."""


def moments(count: int, shape: str, chance: random.Random) -> list[float]:
    """Seconds after the beginning at which somebody submits."""
    last = HOURS * 3600
    late = count // 2 if shape == "before the deadline" else 0
    return sorted([chance.uniform(0, last) for _ in range(count - late)] + [chance.uniform(last - 1800, last) for _ in range(late)])


def evening(folder: Path, students: int, count: int, speed: float, shape: str, seed: int = 1) -> dict[str, object]:
    """Submissions of a class through the whole server; waits in seconds of the evening."""
    chance = random.Random(seed)
    with course(folder, students=students, speed=speed) as world, contextlib.redirect_stderr(io.StringIO()):
        logins = [login for login in world.tokens if login != "prof"]
        began, refused = time.monotonic(), 0
        with world.client() as http:
            for number, moment in enumerate(moments(count, shape, chance)):
                time.sleep(max(0.0, began + moment / speed - time.monotonic()))
                token = world.tokens[chance.choice(logins)]
                upload = {"lab": "w8a8", "text": kernel(number), "request": f"{number:032x}"}
                answer = http.post("/api/attempts", json=upload, headers={"authorization": f"Bearer {token}"})
                refused += answer.status_code != 202
        world.wait(600)
        done = world.service.store.in_state("done")
        waits = [speed * (one.finished_at - one.submitted_at) for one in done]
        queued = [speed * (one.started_at - one.submitted_at) for one in done]
        return {
            "shape": shape, "submitted": count, "answered": len(done), "refused": refused, "graded": len(world.engine.given),
            "wait in the queue": spread(queued), "answer after": spread(waits),
        }  # fmt: skip


def serving(place: Path, port: int) -> subprocess.Popen[bytes]:
    """A server as `python -m tests.course_evening serve` runs it."""
    command = [sys.executable, "-m", "tests.course_evening", "serve", str(place), str(port)]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def serve(place: Path, port: int) -> None:
    """Serves until it is killed: real workers, real HTTP, an engine that counts each verdict into a file."""
    import uvicorn

    from grader.classroom.batch.journal import Journal
    from grader.classroom.batch.tasks import Setup
    from grader.classroom.batch.workers import FIRST, WorkerPool
    from grader.classroom.hidden_cases import Secrets
    from grader.classroom.server.api import application
    from grader.classroom.server.dispatching import Dispatcher
    from grader.classroom.server.service import Service
    from grader.classroom.server.throttling import Impatient
    from tests.course_server import LABS, MOST, Timed
    from tests.reports import H200

    store, setup = Store(place / "course.sqlite"), Setup(H200, Secrets(7))
    with WorkerPool(1) as pool, Journal(place / "course.sqlite") as journal:
        pool.submit(FIRST, os.getpid)
        dispatcher = Dispatcher(store, journal, pool, lambda: Timed(BUILD_SECONDS * 20), setup, 4)
        service = Service(dispatcher, LABS, per_hour=MOST)
        dispatcher.start()
        uvicorn.run(application(service), port=port, http=Impatient, ws="none", lifespan="off", access_log=False, log_level="warning")


def kills(place: Path, count: int, seed: int, submissions: int) -> dict[str, object]:
    """Kills the server, or one of its workers, `count` times while clients submit as they would; then looks at what is there."""
    chance = random.Random(seed)
    tokens = Store(place / "course.sqlite").admit([Person(f"s{number}") for number in range(8)], "student", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    accepted: dict[str, int] = {}
    ending = threading.Event()

    def client(login: str, numbers: list[int]) -> None:
        """Submits each until the server has said what number it has: a request whose answer got lost is repeated."""
        http = httpx.Client(trust_env=False, timeout=5, headers={"authorization": f"Bearer {tokens[login]}"})
        for number in numbers:
            upload = {"lab": "w8a8", "text": kernel(number // 2), "request": f"{number:032x}"}
            while not ending.is_set():
                try:
                    answer = http.post(f"http://127.0.0.1:{port}/api/attempts", json=upload)
                    if answer.status_code == 202:
                        accepted[f"{number:032x}"] = answer.json()["id"]
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.2)

    logins = list(tokens)
    threads = [
        threading.Thread(target=client, args=(login, list(range(submissions))[at :: len(logins)]), daemon=True)
        for at, login in enumerate(logins)
    ]
    server = serving(place, port)
    for thread in threads:
        thread.start()
    killed = {"server": 0, "worker": 0}
    for _ in range(count):
        _until_served(port)
        time.sleep(chance.uniform(0.0, 1.0))
        kind = chance.choice(["server", "server", "worker"])
        kind = kind if _kill(server.pid, kind) else "server"
        killed[kind] += 1
        if kind == "server":
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            server = serving(place, port)
    store, until = Store(place / "course.sqlite"), time.monotonic() + 300
    while any(thread.is_alive() for thread in threads) or store.in_state("queued", "running"):
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    ending.set()
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    attempts = store.in_state("queued", "running", "done", "failed")
    verdicts = store._rows("SELECT key FROM verdict")
    log = (place / "log").read_text(encoding="utf-8", errors="replace")
    return {
        "killed": killed,
        "accepted": len(accepted),
        "lost": len(set(accepted.values()) - {one.id for one in attempts if one.state == "done"}),
        "twice in the queue": len(attempts) - len(accepted),
        "answers": sum(line.count(" graded after ") for line in log.splitlines()),
        "kernels": len({one.key for one in attempts}),
        "verdicts": len(verdicts),
        "tokens or sources in the log": sum(token in log for token in tokens.values()) + log.count("tl.store"),
    }


def _kill(server: int, kind: str) -> bool:
    """Kills a process below the server; False where there is none."""
    import psutil

    if kind == "server":
        return True
    try:
        below = psutil.Process(server).children(recursive=True)
        random.choice(below).kill()
        return True
    except (psutil.Error, IndexError):
        return False


def _until_served(port: int) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=2)
            return
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("evening", "kills", "serve"))
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--submissions", type=int, default=2000)
    parser.add_argument("--speed", type=float, default=100.0)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    options = parser.parse_args()
    if options.what == "serve":
        serve(Path(options.rest[0]), int(options.rest[1]))
        return
    for shape in options.shapes if options.what == "evening" else ("",):
        with tempfile.TemporaryDirectory() as place:
            if options.what == "evening":
                found = evening(Path(place), options.students, options.submissions, options.speed, shape)
            else:
                found = kills(Path(place), options.kills, 1, options.submissions)
        print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
