"""A verdict that rests on a dead sandbox is looked at again: what a kernel does to itself holds, what others did does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.batch import tasks
from grader.batch.tasks import Undecided, grade_on_cpu
from grader.labs import get_lab
from grader.model import LabReport, Refusal, TestResult
from grader.scoring import load_rubric, refused
from tests.stub_class import SETUP

DIED = "while the configs and the grid were evaluated: it was killed for a limit of memory or CPU time"
CRASHED = "the interpreter's process died: it crashed (SIGSEGV)"
OTHER = "the compiler's process died: it ended with exit status 3"


def graded(message: str = "") -> LabReport:
    """A report in which one case says so."""
    report = refused(get_lab("w8a8"), Refusal("graded", ""), load_rubric(), gpu=False)
    test = TestResult("one_tile", "correctness", "failed" if message else "passed", 0.0, 60.0, message)
    return replace(report, tests=(test,), correctness_points=0.0 if message else 60.0)


@pytest.fixture
def answers(monkeypatch):
    """What grading comes to, one time after the other."""
    waiting: list[LabReport] = []
    monkeypatch.setattr(tasks, "_graded_on_cpu", lambda setup, source: waiting.pop(0))
    monkeypatch.setattr(tasks, "bubblewrap", lambda: "bwrap")
    return waiting


@pytest.mark.parametrize(
    ("messages", "told", "left"),
    [
        (["", "unused"], "", 1),
        (["wrong numbers", "unused"], "wrong numbers", 1),
        ([DIED, "", "unused"], "", 1),
        ([DIED, OTHER, ""], "", 0),
        ([CRASHED, CRASHED, "unused"], CRASHED, 1),
        ([CRASHED, OTHER, OTHER], OTHER, 0),
        ([DIED, DIED, ""], "", 0),
    ],
)
def test_what_counts(answers, messages, told, left):
    answers += [graded(message) for message in messages]
    assert grade_on_cpu(SETUP, None).tests[0].message == told
    assert len(answers) == left


@pytest.mark.parametrize("messages", [[DIED, DIED, DIED], [DIED, CRASHED, OTHER], [CRASHED, DIED, CRASHED]])
def test_what_is_no_verdict(answers, messages):
    answers += [graded(message) for message in messages]
    with pytest.raises(Undecided, match="ended 3 times"):
        grade_on_cpu(SETUP, None)


def test_a_sandbox_that_is_gone_is_no_verdict(answers, monkeypatch):
    class Gone:
        looks = 0

        def __call__(self) -> None:
            self.looks += 1

        def cache_clear(self) -> None:
            """Nothing is kept."""

    gone = Gone()
    monkeypatch.setattr(tasks, "bubblewrap", gone)
    with pytest.raises(Undecided, match="does not work now"):
        grade_on_cpu(SETUP, None)
    assert gone.looks == 2
