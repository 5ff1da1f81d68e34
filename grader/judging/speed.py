"""The speed tests of a lab: the measured ratio of each timed case, its tier and its points."""

from __future__ import annotations

from typing import Any

from grader.judging.judged import Judged
from grader.judging.ratios import Ratio, ratio
from grader.judging.rubric import Rubric, Tiers
from grader.labs import Lab
from grader.model import SpeedSample, TestResult


def speed_tests(lab: Lab, judged: Judged, rubric: Rubric, tiers: Tiers | None, earned: float) -> list[TestResult]:
    """One test a timed case; no points before enough of the correctness points are `earned`."""
    shares = rubric.shares(lab.id, [case.name for case in lab.speed_cases], rubric.speed)
    if judged.samples is None or tiers is None:
        return [
            TestResult(case.name, "speed", "skipped", 0.0, shares[case.name], "speed is graded on a GPU only")
            for case in lab.speed_cases
        ]
    enough = earned >= rubric.speed_needs_correctness * rubric.correctness
    return [
        _timed(lab, sample, rubric, tiers, shares[sample.case], enough=enough)
        if sample.status == "timed"
        else TestResult(sample.case, "speed", "error" if sample.status == "error" else "failed", 0.0, shares[sample.case], sample.message)
        for sample in judged.samples
    ]


def _timed(lab: Lab, sample: SpeedSample, rubric: Rubric, tiers: Tiers, worth: float, *, enough: bool) -> TestResult:
    measured = ratio(sample.log_ratios)
    boundaries = tiers.boundaries(lab.id, sample.case)
    tier = sum(measured.value >= boundary for boundary in boundaries)
    part = rubric.tier_shares[min(tier, len(rubric.tier_shares)) - 1] if tier and enough else 0.0
    times = f"{sample.student_us:.1f} us against {sample.baseline_us:.1f} us"
    next_step = f"next tier at {boundaries[tier]:.2f}x" if tier < len(boundaries) else "top tier"
    message = f"{measured.value:.2f}x of cuBLAS fp16 ({times}), {next_step}"
    if not tiers.calibrated:
        message += " (uncalibrated)"
    if sample.message:
        message += f"; {sample.message}"
    if not enough:
        message += "; no points before half of the correctness points are earned"
    metrics = _metrics(sample, measured, tiers, boundaries, tier)
    return TestResult(sample.case, "speed", "passed" if part else "failed", worth * part, worth, message, metrics=metrics)


def _metrics(sample: SpeedSample, measured: Ratio, tiers: Tiers, boundaries: tuple[float, ...], tier: int) -> dict[str, Any]:
    return {
        "ratio": round(measured.value, 4),
        "ratio_low": round(measured.low, 4),
        "ratio_high": round(measured.high, 4),
        "rounds": measured.rounds,
        "control": round(ratio(sample.control_log_ratios).value, 5),
        "student_us": round(sample.student_us, 3),
        "baseline_us": round(sample.baseline_us, 3),
        "floor_us": round(sample.floor_us, 3),
        "bytes_moved": sample.bytes_moved,
        "operations": sample.operations,
        "tier": tier,
        "tiers": list(boundaries),
        "tier_table": tiers.source,
        "calibrated": tiers.calibrated,
        "config": sample.config,
        "config_us": {str(index): round(time, 3) for index, time in sample.config_us.items()},
        "note": sample.message,
    }
