"""Worker processes: what kills one costs its own work alone, and leaving the pool ends all of it."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import CancelledError

import psutil
import pytest

from grader.classroom.batch.workers import FIRST, LATER, WorkerPool, WorkFailed
from grader.sandbox.supervisor import CannotStart, Supervised
from tests.processes import command_line, descendants, parent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("light", "threads"), [(False, 1), (True, 1), (True, 2)], ids=["forkserver", "forked", "spawned"])
def test_a_deadly_call_fails_alone(light, threads, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    with WorkerPool(1) as pool:
        deadly = pool.submit(FIRST, os._exit, 3, light=light)
        wrong = pool.submit(FIRST, math.sqrt, -1.0, light=light)
        right = pool.submit(FIRST, math.sqrt, 4.0, light=light)
        with pytest.raises(WorkFailed, match="died 3 times"):
            deadly.result(timeout=120)
        with pytest.raises(WorkFailed, match="ValueError"):
            wrong.result(timeout=60)
        assert right.result(timeout=60) == 2.0


def test_what_is_urgent_goes_first():
    order = []
    with WorkerPool(1) as pool:
        waits = [pool.submit(LATER, time.sleep, 1.0)]
        time.sleep(0.2)
        for name, priority in (("late", LATER), ("soon", FIRST)):
            waits.append(pool.submit(priority, math.sqrt, 1.0))
            waits[-1].add_done_callback(lambda _, name=name: order.append(name))
        for future in waits:
            future.result(timeout=120)
    assert order == ["soon", "late"]


def test_leaving_ends_work_under_way_and_cancels_the_rest():
    with WorkerPool(1) as pool:
        pool.submit(FIRST, math.sqrt, 1.0).result(timeout=120)
        under_way = pool.submit(FIRST, time.sleep, 600)
        waiting = pool.submit(LATER, time.sleep, 600)
        time.sleep(1.0)
        left = time.monotonic()
    assert time.monotonic() - left < 5
    assert under_way.cancelled()
    assert waiting.cancelled()


def test_a_call_that_hangs_is_ended_alone():
    with WorkerPool(1) as pool:
        hanging = pool.submit(FIRST, time.sleep, 600, seconds=1.0)
        right = pool.submit(LATER, math.sqrt, 4.0)
        with pytest.raises(WorkFailed, match="no answer within"):
            hanging.result(timeout=120)
        assert right.result(timeout=60) == 2.0


def test_a_killed_fork_server_costs_no_work_and_leaves_no_worker():
    """What is under way goes on, what comes gets a new server, and leaving ends workers that have lost their server."""
    with WorkerPool(2) as pool:
        pool.submit(FIRST, math.sqrt, 1.0).result(timeout=120)
        under_way = [pool.submit(FIRST, time.sleep, 3.0), pool.submit(FIRST, os.getpid)]
        orphan = psutil.Process(under_way[1].result(timeout=60))
        server = next(one for one in descendants() if "forkserver" in command_line(one) and parent(one) == os.getpid())
        server.kill()  # and its end is multiprocessing's to take note of
        assert under_way[0].result(timeout=60) is None
        with pytest.raises(WorkFailed, match="died 3 times"):
            pool.submit(FIRST, os._exit, 3).result(timeout=120)
        assert pool.submit(FIRST, math.sqrt, 9.0).result(timeout=120) == 3.0
        endless = pool.submit(FIRST, time.sleep, 600)
        everything = [one for one in descendants() if "forkserver" in command_line(one)]
    with pytest.raises(CancelledError):
        endless.result(timeout=60)
    assert not psutil.wait_procs([orphan, *(one for one in everything if parent(one) != os.getpid())], timeout=15)[1]


def test_a_fork_server_that_is_missed_a_moment_late_costs_no_work(monkeypatch):
    """After its death every start fails, for as long as multiprocessing takes it for alive."""
    start, dead_until = Supervised.start, time.monotonic() + 0.4

    def start_or_not(self):
        if time.monotonic() < dead_until:
            raise CannotStart("connection refused")
        start(self)

    monkeypatch.setattr(Supervised, "start", start_or_not)
    with WorkerPool(1) as pool:
        assert pool.submit(FIRST, math.sqrt, 9.0).result(timeout=120) == 3.0


def test_the_last_attempt_is_made_alone(tmp_path):
    """A call whose process died twice begins only when no other is running, and holds the others back."""
    with WorkerPool(2) as pool:
        other = pool.submit(FIRST, time.sleep, 4.0)
        counted = pool.submit(FIRST, dies_twice, str(tmp_path), other_until := time.time() + 4.0)
        assert other.result(timeout=120) is None
        assert counted.result(timeout=120) >= other_until - 1.0


def dies_twice(folder: str, _: float) -> float:
    """Ends its process on the first two calls; the third tells when it was."""
    count = len(os.listdir(folder))
    open(os.path.join(folder, str(count)), "w").close()
    if count < 2:
        os._exit(3)
    return time.time()
