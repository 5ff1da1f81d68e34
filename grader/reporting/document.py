"""The report as the JSON document that other programs read (schema_version 1)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from grader.model import LabReport, Report, TestResult

SCHEMA_VERSION = 1


def document(report: Report) -> dict[str, Any]:
    """The report as JSON-ready data; points are rounded to six decimals."""
    return {
        "schema_version": SCHEMA_VERSION,
        "submission": report.submission,
        "device": asdict(report.device),
        "seed": report.seed,
        "seconds": None if report.seconds is None else round(report.seconds, 2),
        "points": _points(report.points),
        "max_points": _points(report.max_points),
        "gradable_points": _points(report.gradable_points),
        "bonus": {"points": _points(report.bonus_points), "max_points": _points(report.bonus_max)},
        "notes": list(report.all_notes),
        "labs": {lab_id: _lab(lab) for lab_id, lab in report.labs.items()},
    }


def _lab(lab: LabReport) -> dict[str, Any]:
    return {
        "title": lab.title,
        "status": lab.status,
        "message": lab.message,
        "points": _points(lab.points),
        "max_points": _points(lab.max_points),
        "gradable_points": _points(lab.gradable_points),
        "bonus": lab.bonus,
        "correctness": {"points": _points(lab.correctness_points), "max_points": _points(lab.correctness_max)},
        "speed": {
            "status": lab.speed_status,
            "points": _points(lab.speed_points),
            "max_points": _points(lab.speed_max),
        },
        "configs": [asdict(config) for config in lab.configs],
        "build": {str(config): asdict(facts) for config, facts in lab.facts.items()},
        "tests": [_test(test) for test in lab.tests],
        "defects": list(lab.defects),
        "profile": list(lab.profile),
    }


def _test(test: TestResult) -> dict[str, Any]:
    return {
        "name": test.name,
        "kind": test.kind,
        "status": test.status,
        "points": _points(test.points),
        "max_points": _points(test.max_points),
        "message": test.message,
        "diagnosis": test.diagnosis,
        "metrics": dict(test.metrics),
    }


def _points(value: float) -> float:
    return round(value, 6)
