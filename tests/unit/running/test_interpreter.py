"""What one hand-in may cost: launches that each end in time are given up when they take too long together; none imports torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import ClassVar

import pytest

from grader.labs import get_lab
from grader.labs.problems import make_problem
from grader.model import Config, GeneratedModule, KernelBundle, KernelSource, Launch
from grader.running.cpu import TOGETHER, InterpretOptions, interpret
from grader.sandbox.process import Answer
from tests.commands import python

LAB = get_lab("w8a8")
CASE = "one_tile"
SOURCE = KernelSource(LAB.id, LAB.kernel, None, "", (), Path("w8a8.py"))


class Slow:
    """A sandbox in which every launch takes so many seconds and leaves its tensors alone."""

    seconds = 0.0
    says: ClassVar[dict[str, str]] = {}

    spent = 0.0

    def __init__(self, **how):
        pass

    def close(self):
        pass

    def ask(self, request, blobs=(), **how):
        if request["op"] != "interpret":
            return Answer({}, [])
        header = {"seconds": self.seconds, "memory": [], "strayed": [], "written": True, "additions": 0, "left_open": []}
        header.update(self.says)
        return Answer(header, [] if self.says else list(blobs))


class Staggered(Slow):
    """One in which the second launch that begins ends last, and none in time."""

    says: ClassVar[dict[str, str]] = {"error": "LaunchEnded", "reason": "time", "message": "did not finish", "line": None}
    delays: ClassVar[list[float]] = []

    def ask(self, request, blobs=(), **how):
        if request["op"] == "interpret":
            sleep(self.delays.pop(0))
        return super().ask(request, blobs, **how)


def outcomes_of(lab, count, jobs=1, start=Slow):
    """Of so many launches that are another one each to the interpreter."""
    configs = tuple(Config(index, {"BLOCK_M": 16, "NUMBER": index}, 4, 2) for index in range(count))
    launches = {(CASE, index): Launch((1, 1, 1), (), (), ()) for index in range(count)}
    bundle = KernelBundle(LAB.id, configs, launches, {}, GeneratedModule("", LAB.kernel, ()))
    problems = {CASE: make_problem(lab, lab.case(CASE), 1)}
    return interpret(lab, SOURCE, bundle, problems, list(launches), InterpretOptions(jobs, case_seconds=1.0, start=start))


@pytest.mark.parametrize(("seconds", "runs"), [(0.1, 20), (1.0, 17), (16.1, 1), (6.0, 3)])
@pytest.mark.parametrize("says", [{}, {"error": "ValueError", "message": "shapes", "line": None}], ids=["ran", "crash"])
def test_launches_may_take_so_long_together(monkeypatch, seconds, runs, says):
    monkeypatch.setattr(Slow, "seconds", seconds)
    monkeypatch.setattr(Slow, "says", says)
    outcomes = outcomes_of(LAB, 20)
    kind = "crash" if says else "ran"
    assert [outcome.status for outcome in outcomes] == [kind] * runs + ["timeout"] * (20 - runs)
    for outcome in outcomes[runs:]:
        assert outcome.message == f"not run: the launches before it took more than {TOGETHER:.0f} s together on the interpreter"


@pytest.mark.parametrize("hidden", [False, True])
def test_two_launches_that_do_not_end_are_enough(monkeypatch, hidden):
    """Hidden cases, too: each of them would cost a class its seconds."""
    monkeypatch.setattr(Slow, "seconds", 1.0)
    monkeypatch.setattr(Slow, "says", {"error": "LaunchEnded", "reason": "time", "message": "did not finish", "line": None})
    lab = replace(LAB, cases=tuple(replace(case, hidden=hidden and case.name == CASE) for case in LAB.cases))
    assert [outcome.seconds for outcome in outcomes_of(lab, 5)] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_what_runs_beside_a_launch_that_does_not_end_is_waited_for(monkeypatch):
    """Lest a third one begins, and a student waits for it, too."""
    monkeypatch.setattr(Staggered, "delays", [0.01, 0.5, 0.01])
    outcomes = outcomes_of(LAB, 5, 2, Staggered)
    assert {outcome.status for outcome in outcomes} == {"timeout"}
    assert len(Staggered.delays) == 1


WITHOUT_TORCH = """
import math, os, sys
os.environ["TRITON_INTERPRET"] = "1"
from grader.interpreter import generated_module, launching, program_loop
import triton.language as tl
from triton.runtime.jit import mangle_type

module = generated_module.load({path!r}, "doubled", 90)
buffer = bytes(range(16))
request = dict(tensors=[dict(name="y", type="i8", shape=[8], strides=[1], offset=4)], scalars=dict(n=6), constants={{}}, grid=[1, 1, 1])
answer, (after,) = launching.interpret_one(module, request, [buffer])
assert "error" not in answer, answer
assert after == bytes(2 * value if 4 <= value < 10 else value for value in buffer), after
assert "torch" not in sys.modules
whole = 0, 1, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1
for number in (True, False, *whole, 1.0, math.inf, math.nan):
    assert program_loop.number_type(number) == tl.str_to_ty(mangle_type(number), None), number
for number in (2**64, -(2**63) - 1):
    for judge in (program_loop.number_type, mangle_type):
        try:
            judge(number)
        except OverflowError:
            continue
        raise AssertionError(number)
"""

DOUBLED = """
from triton import jit as __jit
import triton.language as tl

@__jit
def doubled(y, n):
    at = tl.arange(0, 8)
    tl.store(y + at, 2 * tl.load(y + at, mask=at < n), mask=at < n)
"""


@pytest.mark.slow
def test_a_launch_imports_no_torch_and_takes_numbers_as_triton_does(tmp_path):
    """A sandbox is forked from a process that has imported nothing that launches do not need."""
    path = tmp_path / "made_module.py"
    path.write_text(DOUBLED, encoding="utf-8")
    python("-c", WITHOUT_TORCH.format(path=str(path)))
