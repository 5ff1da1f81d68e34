"""What does a student read below a graded cell? The points, why not more, and pictures; of hidden cases the class only."""

from __future__ import annotations

from typing import Any

from nbformat import v4

from grader.model import LabReport, Report
from grader.reporting import drawings
from grader.reporting.compact import Remark, marked, remarks_on
from grader.reporting.inline import Inline
from grader.reporting.terminal import number

MAX_MAPS = 2


def cell_outputs(report: Report, lab: LabReport, part: str, score: float) -> list[Any]:
    """The outputs of a graded cell: the report, then the points as the result that nbgrader reads."""
    return _outputs(correctness(lab) if part == "correctness" else speed(report, lab), score)


def answer_outputs(score: float, max_score: float, sentence: str) -> list[Any]:
    """The outputs of a question's cell: the sentence, then the points as the result that nbgrader reads."""
    colour = "green" if score == max_score else "yellow" if score else "red"
    return _outputs(Inline([Remark(f"{number(score)} of {number(max_score)} points. {sentence}", colour)]), score)


def _outputs(answer: Inline, score: float) -> list[Any]:
    shown = v4.new_output("display_data", data={"text/html": answer._repr_html_(), "text/plain": repr(answer)})
    return [shown, v4.new_output("execute_result", data={"text/plain": repr(score)}, execution_count=None)]


def correctness(lab: LabReport) -> Inline:
    """Cases, causes, memory faults, advice on the build, error maps."""
    if lab.error_maps:
        from grader.reporting import pictures
    return Inline(remarks_on(lab), [pictures.error_map(errors) for errors in lab.error_maps[:MAX_MAPS]])


def speed(report: Report, lab: LabReport) -> Inline:
    """Every timed case with its tier; without a GPU, that these points could not be earned here."""
    worth = f"{number(lab.speed_points)}/{number(lab.speed_max)} points"
    if lab.speed_status in ("skipped", "not_graded"):
        reason = "speed was not gradable here: it needs a GPU, and this was graded without one"
        if report.device.kind == "cuda":
            reason = "there was no kernel to time"
        return Inline([Remark(f"speed {worth}; {reason}", "yellow")])
    timed = [test for test in lab.tests if test.kind == "speed"]
    remarks = [Remark(f"speed {worth} on {report.device.name}", "green" if lab.speed_points else "red")]
    remarks += [marked(test.status, f"{test.name}: {test.message}") for test in timed]
    found = (drawings.tiers(lab), drawings.roofline(report, lab))
    return Inline(remarks, [picture for picture in found if picture is not None])
