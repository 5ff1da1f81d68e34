"""From the text that was submitted to a source, and from a verdict to what its author is told; what reads text runs in a worker."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.classroom.batch.coordinating import points_today, without_verdict
from grader.classroom.batch.tasks import read_hand_in
from grader.classroom.batch.verdicts import placed
from grader.classroom.server.store import AttemptAnswer
from grader.compile_errors import headline
from grader.diagnosis.catalogue import title
from grader.model import Device, KernelSource, LabReport, Refusal, Report, SourceLine
from grader.reporting import page as html
from grader.reporting.compact import Remark, remarks_on

MAX_REMARKS, MAX_REMARK = 30, 4000


def read_text(lab_id: str, text: str, lines: Sequence[Sequence[Any]]) -> KernelSource | Refusal:
    """The kernel in a text, with the places of its lines as its author has them; for a worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{lab_id}.py")
        path.write_text(text, encoding="utf-8")
        content = read_hand_in(path, (lab_id,))
    source = content if isinstance(content, Refusal) else content.submission.labs[lab_id]
    if isinstance(source, Refusal):
        return source
    known = dict(enumerate(lines, start=1))
    places = tuple(SourceLine(*known[at.line]) if at.line in known else at for at in source.lines)
    return replace(source, lines=places, path=Path(f"{lab_id}.py"))


def answer(report: LabReport | Refusal, source: KernelSource | None, lab_id: str, device: Device) -> AttemptAnswer:
    """What is told of an attempt. The points are those of today's rubric."""
    gpu = device.kind == "cuda"
    report = without_verdict(lab_id, report, gpu=gpu) if isinstance(report, Refusal) else points_today(report, device)
    if source is not None:
        report = placed(report, source)
    ratios = {test.name: float(test.metrics["ratio"]) for test in report.tests if "ratio" in test.metrics}
    remarks = [*remarks_on(report), *map(Remark, report.profile)]
    counted = bool(ratios) and report.speed_points > 0
    return AttemptAnswer(
        status=report.status,
        points=round(report.points, 2),
        max_points=report.max_points,
        gradable=report.gradable_points,
        ratio=round(statistics.geometric_mean(ratios.values()), 4) if counted else None,
        cases={name: round(ratio, 4) for name, ratio in ratios.items()} if counted else {},
        trouble=trouble(report),
        remarks=[(one.text[:MAX_REMARK], one.style) for one in remarks[:MAX_REMARKS]],
    )


def trouble(report: LabReport) -> str:
    """What is wrong first of all, in words that another attempt with the same mistake has too; "" where all is right."""
    if report.status != "graded":
        return "" if report.status == "not_graded" else headline(report.message)
    for test in report.tests:
        if named := test.metrics.get("mistake"):
            return title(report.lab_id, str(named))
    wrong = (test.name for test in report.tests if test.status in ("failed", "error") and test.kind != "speed")
    return next((f"{name} fails" for name in wrong), "")


def draw(
    lab_id: str, text: str, lines: Sequence[Sequence[Any]], report: LabReport | None, device: Device, name: str
) -> str:
    """The page of a verdict, as HTML; for a worker. report: None where the text holds no kernel. Hidden cases show what they show in a
    batch."""
    source = read_text(lab_id, text, lines)
    if isinstance(source, Refusal) or report is None:
        refusal = source if isinstance(source, Refusal) else Refusal("not_graded", "there is no verdict yet")
        shown = without_verdict(lab_id, refusal, gpu=device.kind == "cuda")
    else:
        shown = placed(points_today(report, device), source)
    return html.page(Report(name, device, None, {lab_id: shown}))
