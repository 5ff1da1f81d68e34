"""Worker processes: what kills one costs its own work alone, and leaving the pool ends all of it."""

from __future__ import annotations

import math
import os
import time

import pytest

from grader.batch.workers import FIRST, LATER, WorkerPool, WorkFailed

pytestmark = pytest.mark.slow


def test_a_deadly_call_fails_alone():
    with WorkerPool(1) as pool:
        deadly = pool.submit(FIRST, os._exit, 3)
        wrong = pool.submit(FIRST, math.sqrt, -1.0)
        right = pool.submit(FIRST, math.sqrt, 4.0)
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
