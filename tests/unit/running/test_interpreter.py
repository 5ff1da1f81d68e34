"""What one hand-in may cost: launches that each end in time are given up when they take too long together."""

from __future__ import annotations

import pytest

from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import Config, KernelBundle, Launch, MadeModule
from grader.running.interpreter import TOGETHER, InterpretOptions, interpret
from grader.sandbox.process import Answer

LAB = get_lab("w8a8")
CASE = "one_tile"


class Slow:
    """A sandbox in which every launch takes so many seconds and leaves its tensors alone."""

    seconds = 0.0

    def __init__(self, **how):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, blobs=(), **how):
        if request["op"] != "interpret":
            return Answer({}, [])
        return Answer({"seconds": self.seconds, "memory": [], "strayed": [], "written": True}, list(blobs))


@pytest.mark.parametrize(("seconds", "runs"), [(0.1, 20), (1.0, 17), (16.1, 1), (6.0, 3)])
def test_launches_may_take_so_long_together(monkeypatch, seconds, runs):
    monkeypatch.setattr(Slow, "seconds", seconds)
    configs = tuple(Config(index, {"BLOCK_M": 16}, 4, 2) for index in range(20))
    launches = {(CASE, index): Launch((1, 1, 1), (), (), ()) for index in range(20)}
    bundle = KernelBundle(LAB.id, configs, launches, {}, MadeModule("", LAB.kernel, ()))
    problems = {CASE: make_problem(LAB, LAB.case(CASE), 1)}
    options = InterpretOptions(1, case_seconds=1.0, start=Slow)
    outcomes = interpret(LAB, None, bundle, problems, [(CASE, index) for index in range(20)], options)
    assert [outcome.status for outcome in outcomes] == ["ran"] * runs + ["timeout"] * (20 - runs)
    for outcome in outcomes[runs:]:
        assert outcome.message == f"not run: the launches before it took more than {TOGETHER:.0f} s together on the interpreter"
