"""An evening on the course server, and SIGKILL while it goes on: `python -m tests.course_evening --help`.

`evening`: students submit in three hours, compressed; prints how long answers took. `kills`: the server is a process that is killed and
started again while submissions come in, and so are its workers, the process that stands for the GPU's and, with `--ray`, the nodes of a
cluster; prints what was lost and what was graded twice, which has to be nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import psutil

from grader.classroom.roster import Person
from grader.classroom.server.store import Store
from tests.course_server import course, kernel, spread
from tests.faults.test_killed import kind_of
from tests.processes import descendants, free_port

HOURS, PATIENCE = 3.0, 120.0
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
        }


KINDS = ("server", "worker", "GPU process")
RAY_KINDS = ("server", "node")
WATCHES = """
CREATE TABLE twice (what TEXT);
CREATE TRIGGER graded BEFORE INSERT ON verdict WHEN EXISTS (SELECT 1 FROM verdict WHERE key = NEW.key)
BEGIN INSERT INTO twice VALUES ('a verdict'); END;
CREATE TRIGGER answered BEFORE UPDATE OF finished_at ON attempt WHEN OLD.finished_at IS NOT NULL
BEGIN INSERT INTO twice VALUES ('an answer'); END;
"""
"""What SQLite itself notes down in the course's file: a verdict that was there already, an answer that was given already."""


def serving(place: Path, port: int, address: str) -> subprocess.Popen[bytes]:
    """A server as `python -m tests.course_evening serve` runs it."""
    command = [sys.executable, "-m", "tests.course_evening", "serve", str(place), str(port), address]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def serve(place: Path, port: int, address: str) -> None:
    """Serves until it is killed: everything but kernels is real. address: of a Ray cluster, or ""."""
    import uvicorn

    from grader.classroom.batch.journal import Journal
    from grader.classroom.batch.local import LocalEngine
    from grader.classroom.batch.ray_engine import RayEngine, connect
    from grader.classroom.batch.tasks import Setup
    from grader.classroom.batch.workers import FIRST, WorkerPool
    from grader.classroom.hidden_cases import Secrets
    from grader.classroom.server.api import application
    from grader.classroom.server.dispatching import Dispatcher
    from grader.classroom.server.service import Service
    from grader.classroom.server.throttling import TimedProtocol
    from tests.course_gpu import pretend
    from tests.course_server import LABS, MOST
    from tests.reports import H200

    pretend()

    def over_ray() -> RayEngine:
        connect(address, "cpu")
        return RayEngine(setup)

    store, setup = Store(place / "course.sqlite"), Setup(H200, Secrets(7))
    with WorkerPool(2) as pool, Journal(place / "course.sqlite") as journal:
        pool.submit(FIRST, os.getpid)
        engine = over_ray if address else lambda: LocalEngine(setup, pool, gpu_count=1)
        dispatcher = Dispatcher(store, journal, pool, engine, setup, 4)
        service = Service(dispatcher, LABS, per_hour=MOST)
        dispatcher.start()
        uvicorn.run(application(service), port=port, http=TimedProtocol, ws="none", lifespan="off", access_log=False, log_level="warning")


SLOW = {"RAY_agent_register_timeout_ms": "240000", "RAY_raylet_start_wait_time_s": "240"}
"""How long Ray waits for parts of itself: a busy machine needs longer than it waits by itself."""


class Cluster:
    """A Ray cluster on this machine: a head, and two nodes that say they have a GPU."""

    def __init__(self) -> None:
        os.environ.update(SLOW)
        from ray.cluster_utils import Cluster as Nodes

        self._nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self.address = str(self._nodes.address)
        self._with_gpu = [self._add() for _ in range(2)]

    def _add(self) -> object:
        for _ in range(3):  # a busy machine is too slow for Ray now and then
            with contextlib.suppress(Exception):
                return self._nodes.add_node(num_cpus=1, num_gpus=1)
        raise RuntimeError("no node of a Ray cluster comes up on this machine")

    def kill_a_node(self, chance: random.Random) -> None:
        """SIGKILL for all of a node's processes; another takes its place."""
        at = chance.randrange(len(self._with_gpu))
        self._nodes.remove_node(self._with_gpu[at], allow_graceful=False)
        self._with_gpu[at] = self._add()

    def end(self) -> None:
        self._nodes.shutdown()


def kills(place: Path, count: int, seed: int, submissions: int, *, ray: bool = False) -> dict[str, object]:
    """Kills the server and what works for it, the kinds in turn, `count` times in all while clients submit; then looks at what is there."""
    chance, cluster = random.Random(seed), Cluster() if ray else None
    opened = Store(place / "course.sqlite")
    tokens = opened.admit([Person(f"s{number}") for number in range(8)], "student", 1)
    opened.close()
    with contextlib.closing(sqlite3.connect(place / "course.sqlite")) as database:
        database.executescript(WATCHES)
    port = free_port()
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
                time.sleep(0.5)

    logins = list(tokens)
    threads = [
        threading.Thread(target=client, args=(login, list(range(submissions))[at :: len(logins)]), daemon=True)
        for at, login in enumerate(logins)
    ]
    address = cluster.address if cluster else ""
    server, killed, seen = serving(place, port, address), dict.fromkeys(RAY_KINDS if ray else KINDS, 0), set()
    store = Store(place / "course.sqlite")
    for thread in threads:
        thread.start()
    try:
        for kind in itertools.islice(itertools.cycle(killed), count):
            until = time.monotonic() + PATIENCE
            while not store.in_state("running"):
                assert time.monotonic() < until, "nothing runs: every submission is graded already, or the server does not come up"
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, 0.5))
            below = descendants(server.pid)
            seen |= set(below)
            if kind == "server":
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
                server = serving(place, port, address)
            elif cluster and kind == "node":
                cluster.kill_a_node(chance)
            else:
                while not (chosen := [one for one in descendants(server.pid) if kind_of(one) == kind]):
                    assert time.monotonic() < until, f"no {kind} is there"
                    time.sleep(0.02)
                chance.choice(chosen).kill()
            killed[kind] += 1
        until = time.monotonic() + PATIENCE
        while (any(thread.is_alive() for thread in threads) or store.in_state("queued", "running")) and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        ending.set()
        seen |= set(descendants(server.pid))
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        if cluster:
            cluster.end()
    attempts = store.in_state("queued", "running", "done", "failed")
    log = (place / "log").read_text(encoding="utf-8", errors="replace")
    found = {
        "killed": killed,
        "submitted": submissions,
        "accepted": len(accepted),
        "not answered": len(set(accepted.values()) - {one.id for one in attempts if one.state == "done"}),
        "queued twice": len(attempts) - len(accepted),
        "graded or answered twice": len(store._rows("SELECT what FROM twice")),
        "kernels": len({one.key for one in attempts}),
        "verdicts": len(store._rows("SELECT key FROM verdict")),
        "tokens or sources in the log": sum(token in log for token in tokens.values()) + log.count("tl.store"),
        "processes left": len(psutil.wait_procs(seen, timeout=15)[1]),
    }
    store.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("evening", "kills", "serve"))
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("--submissions", type=int, default=2000)
    parser.add_argument("--speed", type=float, default=100.0)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    options = parser.parse_args()
    if options.what == "serve":
        serve(Path(options.rest[0]), int(options.rest[1]), options.rest[2])
        return
    for shape in options.shapes if options.what == "evening" else ("",):
        with tempfile.TemporaryDirectory() as place:
            if options.what == "evening":
                found = evening(Path(place), options.students, options.submissions, options.speed, shape)
            else:
                found = kills(Path(place), options.kills, options.seed, options.submissions, ray=options.ray)
        print(json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
