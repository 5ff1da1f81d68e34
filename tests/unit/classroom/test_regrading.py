"""Grading again does no harm: what was not asked for keeps its marks, and another rubric needs no kernel to run."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.classroom.batch import coordinating, journal
from grader.classroom.batch.coordinating import Plan, run_batch
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.batch.standing import Standing, standings
from grader.judging.rubric import load_rubric
from grader.labs import get_lab
from grader.model import KernelSource, LabReport, TestResult
from tests.deliveries import delivered
from tests.stub_class import SETUP, Answering, PoolHere
from tests.submissions import TESTS

KERNEL = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
WORKS = {"ann": "1", "ben": "2", "cat": "3", "dan": "1"}
"""Whose kernel is whose: ann and dan have the same text."""
CASES = [case.name for case in get_lab("w8a8").cases]


class Versioned(Answering):
    """An engine whose verdicts depend on the text and on a version of the grader; it remembers what it was asked."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version, self.asked = version, 0

    def _report(self, source: KernelSource) -> LabReport:
        self.asked += 1
        tests = [TestResult(name, "correctness", self.status(source.module, name), 0.0, 0.0, "said") for name in CASES]
        whole = super()._report(source)
        return replace(whole, tests=(*tests, TestResult("memory", "memory", "passed", 0.0, 0.0, "inside")))

    def status(self, text: str, case: str) -> Any:
        return "passed" if hashlib.sha256(f"{text}{case}{self.version}".encode()).digest()[0] % 2 else "failed"


def kernel(work: str) -> str:
    return KERNEL.replace("    pid = ", f"    WORK = {work}\n    pid = ", 1)


def class_of(root: Path) -> Path:
    return delivered(root, {f"{student}/w8a8.py": kernel(work) for student, work in WORKS.items()})


def run(
    root: Path, engine: Versioned, only: Any = (), *, regrade: bool = False, setup: Any = SETUP
) -> dict[str, Standing]:
    pool: Any = PoolHere()
    with Journal(root.parent / "journal.sqlite") as kept:
        plan = Plan(root, ("w8a8",), setup, only=frozenset(only), regrade=regrade)
        graded = run_batch(plan, kept, pool, lambda: contextlib.nullcontext(engine)).graded
    return {one.student: one for one in standings(graded, Rules())}


def passed(standing: Standing) -> dict[str, str]:
    return {test.name: test.status for test in standing.labs["w8a8"].tests if test.kind == "correctness"}


runs = st.lists(
    st.tuples(st.integers(0, 2), st.sets(st.sampled_from(sorted(WORKS))), st.booleans(), st.booleans()),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(runs)
def test_whoever_was_not_chosen_keeps_the_verdict_in_force(wanted):
    """Whatever versions of the grader, devices and choices came before. Nobody is lost, and no kernel of others runs."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        root = class_of(Path(place) / "class")
        in_force: dict[str, int] = {}
        for version, only, regrade, gpu in wanted:
            patch.setattr(journal, "grader_digest", lambda version=version: f"version {version}")
            device = replace(SETUP.device, kind="cuda", name="NVIDIA H200", capability=90) if gpu else SETUP.device
            engine = Versioned(version)
            found = run(root, engine, only, regrade=regrade, setup=replace(SETUP, device=device))
            works = {WORKS[student] for student in only or WORKS}
            in_force |= dict.fromkeys(works, version)
            assert set(found) == set(WORKS)
            assert engine.asked <= len(works)
            for student, standing in found.items():
                work = WORKS[student]
                if work not in in_force:
                    assert standing.points is None
                    assert "which was for others only" in standing.review[0]
                else:
                    expected = Versioned(in_force[work])
                    text = standing.labs["w8a8"].source.module
                    assert passed(standing) == {name: expected.status(text, name) for name in CASES}


def test_another_rubric_scores_the_kept_verdicts_and_runs_no_kernel(tmp_path, monkeypatch):
    root, engine = class_of(tmp_path / "class"), Versioned(0)
    before = run(root, engine)
    assert engine.asked == 3
    rubric = load_rubric()
    other = replace(rubric, correctness=100.0, memory=0.0, weights={"w8a8": {CASES[0]: 50.0}})
    monkeypatch.setattr(coordinating, "load_rubric", lambda: other)
    again = Versioned(1)
    after = run(root, again)
    assert again.asked == 0
    for student, standing in after.items():
        assert passed(standing) == passed(before[student])
        right = [name for name, status in passed(standing).items() if status == "passed"]
        worth = other.shares("w8a8", CASES, 100.0)
        assert standing.points == pytest.approx(sum(worth[name] for name in right))


def test_what_an_older_grader_kept_is_in_force_for_whoever_handed_in_the_same(tmp_path, monkeypatch):
    """A new file of somebody who was not chosen has no verdict: the old one is not its own."""
    root = class_of(tmp_path / "class")
    before = run(root, Versioned(0))
    (root / "ben" / "w8a8.py").write_text(kernel("4"), encoding="utf-8")
    (root / "cat" / "w8a8.py").write_text("\n\n" + kernel("3"), encoding="utf-8")
    monkeypatch.setattr(journal, "grader_digest", lambda: "a new version")
    after = run(root, Versioned(1), {"ann"})
    assert after["ben"].points is None
    assert after["cat"].points == before["cat"].points
    assert after["cat"].labs["w8a8"].source.lines[0].line == before["cat"].labs["w8a8"].source.lines[0].line + 2
