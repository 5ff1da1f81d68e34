"""A process of the grader's that is ended from outside costs nobody a point: its work has no verdict, never 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.building import BuildOptions, build
from grader.classroom.batch import tasks
from grader.classroom.batch.tasks import Undecided, grade_on_cpu
from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.model import KernelSource, Refusal
from grader.pipeline import grading
from grader.pipeline.grading import GradeOptions, grade_lab_on_cpu
from grader.reading import read
from grader.sandbox import LOST, Sandbox, SandboxLost
from tests.stub_class import SETUP
from tests.submissions import TESTS

LAB = get_lab("w8a8")
LAB = replace(LAB, cases=tuple(case for case in LAB.cases if case.name in ("one_tile", "odd_m", "every_config")))


def source() -> KernelSource:
    found = read(TESTS / "styles" / "w8a8_plain.py", [LAB]).labs["w8a8"]
    assert isinstance(found, KernelSource)
    return found


def losing(operation: str):
    """A way to start sandboxes of which those asked for `operation` are ended from outside."""

    class Losing(Sandbox):
        def ask(self, header, blobs=(), *, timeout):
            if header["op"] == operation:
                raise SandboxLost("ended from outside")
            return super().ask(header, blobs, timeout=timeout)

    return Losing


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["load", "describe", "made", "compile", "allocate"])
def test_a_build_that_is_lost_is_no_verdict(operation):
    built = build(LAB, source(), BuildOptions((90,), "check", 1, start=losing(operation)))
    assert built == Refusal("not_graded", LOST)


def test_a_launch_that_is_lost_is_no_verdict(monkeypatch):
    how = grading.InterpretOptions
    monkeypatch.setattr(grading, "InterpretOptions", lambda *given: replace(how(*given), start=losing("interpret")))
    options = GradeOptions(choose("cpu")[0], seed=3, jobs=1, capabilities=(90,), facts=False)
    report = grade_lab_on_cpu(LAB, source(), options, 3)
    assert report.status == "not_graded"
    assert report.message == LOST
    assert {test.status for test in report.tests if test.kind == "correctness"} == {"skipped"}


def test_a_batch_enters_nothing_for_it(monkeypatch):
    monkeypatch.setattr(tasks, "build_lab", lambda *given: Refusal("not_graded", LOST))
    monkeypatch.setattr(tasks, "grade_lab_on_cpu", lambda lab, *given: grading.refused(lab, Refusal("not_graded", LOST), gpu=False))
    with pytest.raises(Undecided, match="from outside"):
        grade_on_cpu(SETUP, source())


def test_a_sandbox_that_is_gone_is_no_verdict(monkeypatch):
    class Gone:
        calls = 0

        def __call__(self) -> None:
            self.calls += 1

        def cache_clear(self) -> None:
            """Nothing is kept."""

    gone = Gone()
    monkeypatch.setattr(tasks, "bubblewrap", gone)
    with pytest.raises(Undecided, match="does not work now"):
        grade_on_cpu(SETUP, KernelSource("w8a8", "W8A8_MM", None, "", (), Path("w8a8.py")))
    assert gone.calls == 2
