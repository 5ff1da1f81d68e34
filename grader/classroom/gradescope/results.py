"""What does Gradescope show of a report? Its results.json: a score, a line a case, and a leaderboard on a GPU.

The format is https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Literal

from grader.model import LabReport, Report, TestResult
from grader.reporting.terminal import next_step, number, total
from grader.reporting.text import prose

Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]
HIDDEN_BY_DEFAULT: Visibility = "after_published"
DECIMALS = 6
HiddenCases = Collection[tuple[str, str]]


def results(
    report: Report, hidden_cases: HiddenCases = (), hidden_visibility: Visibility = HIDDEN_BY_DEFAULT
) -> dict[str, Any]:
    """The report in Gradescope's words, JSON-ready. `score` is the grader's own sum, of bonus labs where there are no others; the lines'
    scores are rounded one by one.

    hidden_cases: lab id and name of the cases that students see later, or never.
    """
    concealed = () if hidden_visibility == "visible" else tuple(hidden_cases)
    lines = [line for lab in report.labs.values() for line in _lines(lab, report, concealed, hidden_visibility)]
    places = [place for lab in report.labs.values() for place in _places(lab)]
    sentences = [
        *_total(report, concealed),
        *report.all_notes,
        f"Next: {next_step(_without(report, concealed), hidden=bool(concealed))}",
    ]
    return {
        "score": round(report.points if report.max_points else report.bonus_points, DECIMALS),
        "output": "\n".join(prose(sentence) for sentence in sentences),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": lines,
        **({"leaderboard": places} if places else {}),
        **({} if report.seconds is None else {"execution_time": round(report.seconds, 2)}),
    }


def _total(report: Report, concealed: HiddenCases) -> Iterator[str]:
    """Where it was graded and, unless that tells of hidden cases, the points."""
    device = report.device
    where = device.name if device.kind == "cuda" else "Triton's interpreter on the CPU; speed was not gradable here"
    if concealed:
        yield f"Graded on {where}. Hidden cases count too."
        return
    points = total(report)
    if report.limited_here:
        points += f" ({number(report.gradable_points)} can be earned on this machine)"
    yield f"{points}, graded on {where}."


def _without(report: Report, concealed: HiddenCases) -> Report:
    """The report as somebody sees it who does not know the hidden cases."""
    labs = {
        lab_id: replace(lab, tests=tuple(test for test in lab.tests if not _conceals(lab_id, test, concealed)))
        for lab_id, lab in report.labs.items()
    }
    return replace(report, labs=labs)


def _conceals(lab_id: str, test: TestResult, concealed: HiddenCases) -> bool:
    """Whether a result is that of a hidden case, or names one."""
    return any(lab_id == lab and (name == test.name or f"`{name}`" in test.message) for lab, name in concealed)


def _lines(lab: LabReport, report: Report, concealed: HiddenCases, later: Visibility) -> Iterator[dict[str, Any]]:
    if not lab.tests:
        most = lab.correctness_max + (lab.speed_max if report.device.kind == "cuda" else 0.0)
        words = f"{lab.status.replace('_', ' ')}: {lab.message}"
        yield _line(f"{lab.lab_id}: submission", 0.0, round(most, DECIMALS), "failed", prose(words))
        return
    for test in lab.tests:
        if test.status == "skipped" and test.kind == "speed":
            continue
        yield _line(
            f"{lab.lab_id}: {test.name}",
            round(test.points, DECIMALS),
            round(test.max_points, DECIMALS),
            "passed" if test.status == "passed" else "failed",
            "\n".join(prose(text) for text in (test.message, test.diagnosis) if text),
            later if _conceals(lab.lab_id, test, concealed) else "visible",
        )
    if lab.speed_status == "skipped":
        words = f"not gradable here: {number(lab.speed_max)} points for speed are given on a GPU"
        yield _line(f"{lab.lab_id}: speed", 0.0, 0.0, "passed", words)


def _line(
    name: str, score: float, most: float, status: str, output: str, visibility: Visibility = "visible"
) -> dict[str, Any]:
    """One of Gradescope's tests."""
    line = {"name": name, "score": score, "max_score": most, "status": status, "output": output}
    return {**line, "visibility": visibility, "output_format": "text"}


def _places(lab: LabReport) -> Iterator[dict[str, Any]]:
    """The geometric mean of a lab's ratios to cuBLAS fp16."""
    ratios = [test.metrics["ratio"] for test in lab.tests if test.kind == "speed" and test.metrics.get("ratio", 0) > 0]
    if ratios:
        value = round(statistics.geometric_mean(ratios), 4)
        yield {"name": f"{lab.lab_id}: times cuBLAS fp16", "value": value, "order": "desc"}
