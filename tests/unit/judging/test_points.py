"""Points follow from verdicts and the rubric alone: whatever scored a report before leaves nothing in it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.judging.checking import Finding
from grader.judging.judged import Judged
from grader.judging.points import measured_for, with_points
from grader.judging.rubric import Rubric, Tier, Tiers
from grader.judging.scoring import score
from grader.labs import get_lab
from grader.model import GeneratedModule, KernelBundle, LabReport, Outcome, SpeedSample

LAB = get_lab("w8a8")
HIDDEN = replace(LAB.cases[0], name="hidden_1", hidden=True)
NAMES = [case.name for case in LAB.cases]
numbers = st.floats(0, 100).map(lambda value: round(value, 2))
GROUPS = ((*NAMES, "hidden_1"), tuple(case.name for case in LAB.speed_cases))
weights = st.dictionaries(st.sampled_from([name for group in GROUPS for name in group]), numbers).filter(
    lambda table: all(any(table.get(name, 1.0) for name in group) for group in GROUPS)  # points that no case has are no rubric
)
rubrics = st.builds(
    lambda correctness, memory, speed, needs, table: Rubric(
        correctness + 1, memory * correctness, speed, needs, {LAB.id: table}
    ),
    numbers, st.floats(0, 0.9, allow_subnormal=False), numbers, st.floats(0, 1), weights,
)


def table(*ratios: float, calibrated: bool = True) -> Tiers:
    """Tiers that begin at these ratios and are worth equal steps."""
    return Tiers(
        "a.toml", calibrated, {}, tuple(Tier(ratio, (n + 1) / len(ratios)) for n, ratio in enumerate(sorted(ratios)))
    )


tiers = st.lists(st.floats(0.01, 3), min_size=1, max_size=5).map(lambda found: table(*found))


def judged(states: list[str], ratios: list[float] | None) -> LabReport:
    """A report of these states of the cases, the last one hidden, by some rubric."""
    lab = replace(LAB, cases=(*LAB.cases, HIDDEN))
    outcomes = [
        Outcome(case.name, 0, "ran" if state != "skipped" else "unsupported")
        for case, state in zip(lab.cases, states, strict=False)
    ]
    findings = [Finding(state == "passed", "said", skipped=state == "skipped") for state in states]
    samples = None if ratios is None else [
        SpeedSample(case.name, 0, "timed", (math.log(ratio),) * 45, (0.0,) * 15, 10.0, 10.0 * ratio)
        for case, ratio in zip(lab.speed_cases, ratios, strict=False)
    ]
    bundle = KernelBundle(LAB.id, (), {}, {}, GeneratedModule("", LAB.kernel, ()))
    rubric = Rubric(60, 10, 40, 0.5, {})
    watched = [outcome for outcome in outcomes if outcome.status == "ran"]
    return score(
        lab,
        Judged(bundle, (90,), outcomes, findings, samples, watched=watched),
        rubric,
        table(1.0, 2.0, calibrated=False),
    )


states = st.lists(
    st.sampled_from(["passed", "passed", "failed", "skipped"]), min_size=len(NAMES) + 1, max_size=len(NAMES) + 1
)
ratios = st.none() | st.lists(st.floats(0.1, 4), min_size=len(LAB.speed_cases), max_size=len(LAB.speed_cases))


@settings(deadline=None)
@given(states=states, ratios=ratios, before=rubrics, rubric=rubrics, other=tiers, now_by=tiers)
def test_nothing_of_an_earlier_scoring_remains(states, ratios, before, rubric, other, now_by):
    report = judged(states, ratios)
    other, now_by = (None, None) if ratios is None else (other, now_by)
    now = with_points(report, rubric, now_by)
    assert with_points(with_points(report, before, other), rubric, now_by) == now
    earned = sum(test.points for test in now.tests if test.kind != "speed")
    assert now.correctness_points == pytest.approx(earned)
    assert now.speed_points == pytest.approx(sum(test.points for test in now.tests if test.kind == "speed"))
    assert 0 <= now.points <= now.max_points + 1e-9
    graded_here = now.correctness_max + (0 if ratios is None else now.speed_max)
    assert now.gradable_points == graded_here, "whatever the kernel brings about"


@settings(deadline=None)
@given(states=states, rubric=rubrics)
def test_the_memory_test_says_what_cost_the_rest(states, rubric):
    report = with_points(judged(states, None), rubric, None)
    memory = next(test for test in report.tests if test.kind == "memory")
    lost = [
        test.name
        for test in report.tests
        if test.kind == "correctness" and not test.hidden and test.status in ("failed", "error")
    ]
    if memory.status == "passed" and lost and memory.max_points:
        assert memory.points < memory.max_points
        assert "points: " + ", ".join(lost[:4]) in memory.message
    else:
        assert "costs" not in memory.message
    assert "hidden_1" not in memory.message


def test_a_ratio_serves_until_a_boundary_comes_to_lie_in_its_interval():
    report = judged(["passed"] * (len(NAMES) + 1), [1.5])
    spread = [
        replace(test, metrics={**test.metrics, "ratio_low": 1.4, "ratio_high": 1.6}) if test.kind == "speed" else test
        for test in report.tests
    ]
    report = replace(report, tests=tuple(spread))
    assert measured_for(report, None)
    assert measured_for(report, table(1.0, 1.7))
    assert not measured_for(report, table(1.0, 1.5))
    timed = [
        replace(test, metrics={**test.metrics, "tiers": [1.5]}) if test.kind == "speed" else test
        for test in report.tests
    ]
    assert measured_for(replace(report, tests=tuple(timed)), table(1.0, 1.5)), (
        "it was timed for this one"
    )
