"""A kernel that was cancelled on its way: the stage that it is in ends, no other begins, and the engine says so once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.classroom.batch import local
from grader.classroom.batch.engine import CANCELLED, Done, Failed, Reached
from grader.classroom.batch.local import LocalEngine
from grader.classroom.batch.ray_engine import RayEngine
from grader.classroom.batch.tasks import Setup
from grader.classroom.hidden_cases import Secrets
from grader.model import KernelSource
from grader.running import cuda
from tests import course_gpu
from tests.reports import H200

SETUP, SOURCE = Setup(H200, Secrets(7)), KernelSource("w8a8", "W8A8_MM", None, "x = 1\n", (), Path("w8a8.py"))
GONE = Failed("k", CANCELLED)


class Waiting:
    """A pool whose work is done when it is told so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []

    def submit(self, priority: int, function: Any, *arguments: Any) -> Future[Any]:
        self.asked.append((Future(), function, arguments))
        return self.asked[-1][0]

    def work(self) -> None:
        future, function, arguments = self.asked.pop(0)
        future.set_result(function(*arguments))


@pytest.fixture
def engine(monkeypatch):
    """The local engine with one GPU, as tests/course_gpu.py has it."""
    monkeypatch.setattr(local, "build_for_gpu", course_gpu.build)
    monkeypatch.setattr(local, "judge", course_gpu.judge)
    monkeypatch.setattr(cuda, "CudaRunner", course_gpu.Runner)
    pool: Any = Waiting()
    with LocalEngine(SETUP, pool, gpu_count=1) as opened:
        opened.pool = pool
        yield opened


def test_of_a_build_that_was_cancelled_nothing_reaches_the_gpu(engine):
    engine.submit("k", SOURCE)
    engine.cancel("k")
    engine.pool.work()
    assert [engine.next_event(1.0) for _ in range(3)] == [Reached("k", "built"), GONE, None]
    assert engine.pool.asked == []


@pytest.mark.slow
def test_of_a_run_that_was_cancelled_nothing_is_judged_and_a_kernel_can_come_again(engine):
    engine.submit("k", SOURCE)
    engine.pool.work()
    assert engine.next_event(1.0) == Reached("k", "built")
    engine.cancel("k")
    last = [engine.next_event(20.0), engine.next_event(1.0)]
    assert last in ([GONE, None], [Reached("k", "ran"), GONE]), "before the GPU took it, or after"
    assert engine.pool.asked == []
    engine.submit("k", SOURCE)
    engine.pool.work()
    assert [engine.next_event(20.0) for _ in range(2)] == [Reached("k", "built"), Reached("k", "ran")]
    engine.pool.work()
    assert isinstance(engine.next_event(1.0), Done)


def test_a_cluster_begins_no_further_stage_either():
    engine, started = RayEngine(SETUP), []
    engine._build = engine._judge = SimpleNamespace(remote=lambda *given: started.append(given) or len(started))
    engine._shared, engine._ray = None, SimpleNamespace(get=lambda reference: course_gpu.build(SETUP, SOURCE))
    engine.submit("k", SOURCE)
    engine.cancel("k")
    engine._take("k", 1)
    assert [engine.next_event(0.0) for _ in range(2)] == [Reached("k", "built"), GONE]
    engine._waiting.clear()
    engine.submit("k", SOURCE)
    engine._take("k", 2)
    assert engine._queue == ["k"], "it waits for a GPU that is free"
    engine.cancel("k")
    assert engine._queue == []
    assert engine._ready[-1] == GONE
