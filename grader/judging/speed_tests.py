"""The speed tests of a lab: the measured ratio of each timed case, without points."""

from __future__ import annotations

from typing import Any

from grader.judging.judged import Judged
from grader.judging.ratios import ratio
from grader.labs import Lab
from grader.model import SpeedSample, TestResult


def speed_tests(lab: Lab, judged: Judged) -> list[TestResult]:
    """One test a timed case."""
    if judged.samples is None:
        return [
            TestResult(case.name, "speed", "skipped", 0.0, 0.0, "speed is graded on a GPU only")
            for case in lab.speed_cases
        ]
    return [_test(sample) for sample in judged.samples]


def _test(sample: SpeedSample) -> TestResult:
    """Of a case that was timed points, status and message follow from the metrics; see grader/judging/points.py."""
    if sample.status != "timed":
        return TestResult(sample.case, "speed", sample.status, 0.0, 0.0, sample.message)
    return TestResult(sample.case, "speed", "failed", 0.0, 0.0, "", metrics=_metrics(sample))


def _metrics(sample: SpeedSample) -> dict[str, Any]:
    measured = ratio(sample.log_ratios)
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
        "config": sample.config,
        "config_us": {str(index): round(time, 3) for index, time in sample.config_us.items()},
        "gpu": sample.gpu,
        "note": sample.message,
    }
