"""How many points is each verdict worth, and which tier does a ratio reach? Computed from a report, the rubric and the tiers alone.

So a report can be scored again with another rubric, without running a kernel; nothing of the earlier scoring remains in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from grader.judging.rubric import Rubric, Tier, Tiers, load_rubric, load_tiers, share, tier_reached
from grader.labs import get_lab
from grader.model import LabReport, TestResult, TestStatus

MAX_NAMED = 4


def with_points(report: LabReport, rubric: Rubric, tiers: Tiers | None) -> LabReport:
    """The report with its points. tiers: None if speed is not graded."""
    cases = _of(report, "correctness")
    worth = rubric.shares(report.lab_id, [test.name for test in cases], rubric.correctness - rubric.memory)
    cases = [_worth(test, worth[test.name]) for test in cases]
    correctness = [*cases, *(_memory(test, cases, rubric.memory) for test in _of(report, "memory"))]
    earned = fsum(test.points for test in correctness)
    if correctness and all(test.status == "passed" and "unseen" not in test.metrics for test in correctness):
        earned = rubric.correctness
    timed = _of(report, "speed")
    enough = earned >= rubric.speed_needs_correctness * rubric.correctness
    worth = rubric.shares(report.lab_id, [test.name for test in timed], rubric.speed)
    speed = [_speed(test, report.lab_id, rubric, tiers, worth[test.name], enough=enough) for test in timed]
    fast = bool(speed) and all(test.points == test.max_points for test in speed)
    return replace(
        report,
        tests=(*_of(report, "build"), *correctness, *speed),
        correctness_points=earned,
        correctness_max=rubric.correctness,
        speed_points=rubric.speed if fast else sum(test.points for test in speed),
        speed_max=rubric.speed,
        gradable_points=rubric.correctness + (rubric.speed if tiers is not None else 0.0),
    )


def speed_points(gpu: str, lab_id: str) -> dict[str, float]:
    """The speed points that each rung of a lab's ladder earns, by name, on a GPU on which it was measured."""
    tiers = load_tiers(gpu)
    return {rung: earned_by(tiers, lab_id, ratios) for rung, ratios in tiers.rungs(lab_id).items()}


def earned_by(tiers: Tiers, lab_id: str, ratios: Mapping[str, float]) -> float:
    """The speed points of a kernel with these ratios to cuBLAS fp16, by speed case."""
    rubric = load_rubric()
    worth = rubric.shares(lab_id, [case.name for case in get_lab(lab_id).speed_cases], rubric.speed)
    return sum(worth[case] * share(tiers.of(lab_id, case), ratio) for case, ratio in ratios.items())


def measured_for(report: LabReport, tiers: Tiers | None) -> bool:
    """Whether a report was timed long enough for these tiers: a boundary within a ratio's interval would have asked for more rounds.

    The report must be the one of the timing, not scored again since.
    """
    return not any(
        test.metrics["ratio_low"] < boundary < test.metrics["ratio_high"]
        for test in report.tests
        if tiers is not None and "ratio" in test.metrics
        for boundary in set(tiers.boundaries(report.lab_id, test.name)) - set(test.metrics["tiers"])
    )


def _of(report: LabReport, kind: str) -> list[TestResult]:
    return [test for test in report.tests if test.kind == kind]


def _worth(test: TestResult, worth: float) -> TestResult:
    return replace(test, points=worth if test.status == "passed" else 0.0, max_points=worth)


def _memory(test: TestResult, cases: Sequence[TestResult], worth: float) -> TestResult:
    """The memory test's points are in proportion to those of the public cases whose accesses were checked, so that a kernel that accesses
    nothing earns nothing; also where a launch came to no end in time, which fails the test, and its case.
    """
    metrics = dict(test.metrics)
    verdict = metrics.pop("verdict", test.message)
    public = [case for case in cases if not case.hidden]
    whole = sum(case.max_points for case in public)
    unseen = metrics.get("unseen", ())
    right = sum(case.points for case in public if case.name not in unseen)
    checked = test.status == "passed" or "late" in metrics
    points = worth * right / whole if whole and checked else 0.0
    wrong = [case for case in public if case.status in ("failed", "error")]
    lost = [case.name for case in wrong]
    gone = worth * sum(case.max_points for case in wrong) / whole if whole else worth
    message = verdict
    if checked and lost and worth:
        named = ", ".join(lost[:MAX_NAMED]) + (f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else "")
        message += f"; these cases fail, which costs {gone:.3g} of its {worth:.3g} points: {named}"
        metrics["verdict"] = verdict
    return replace(test, points=points, max_points=worth, message=message, metrics=metrics)


def _speed(
    test: TestResult, lab_id: str, rubric: Rubric, tiers: Tiers | None, worth: float, *, enough: bool
) -> TestResult:
    """A timed case with its tier and its points; any other case without points."""
    if tiers is None or "ratio" not in test.metrics:
        return replace(test, points=0.0, max_points=worth)
    ratio, known = test.metrics["ratio"], tiers.of(lab_id, test.name)
    tier = tier_reached(known, ratio)
    part = share(known, ratio) if enough else 0.0
    times = f"{test.metrics['student_us']:.1f} us against {test.metrics['baseline_us']:.1f} us"
    message = f"{ratio:.2f}x of cuBLAS fp16 ({times}), {_standing(known, tier)}"
    if not tiers.calibrated:
        message += " (uncalibrated)"
    if test.metrics["note"]:
        message += f"; {test.metrics['note']}"
    if not enough:
        message += f"; no points until {rubric.speed_needs_correctness:.0%} of the correctness points are earned"
    table = {
        "tier": tier,
        "tiers": [one.ratio for one in known],
        "tier_table": tiers.source,
        "calibrated": tiers.calibrated,
    }
    status: TestStatus = "passed" if part else "failed"
    return replace(
        test, status=status, points=worth * part, max_points=worth, message=message, metrics={**test.metrics, **table}
    )


def _standing(tiers: Sequence[Tier], tier: int) -> str:
    """Where a kernel in this tier stands on the lab's ladder, and where the next tier begins."""
    if tier == len(tiers):
        return "top tier"
    rung = next((one.named for one in reversed(tiers[:tier]) if one.named), "")
    after = tiers[tier]
    standing = f"about as fast as the ladder's step `{rung}`, " if rung else ""
    return f"{standing}next tier at {after.ratio:.2f}x" + (f" (`{after.named}`)" if after.named else "")
