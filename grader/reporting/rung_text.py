"""Where a kernel stands on the ladder, in a sentence: the step that it is built like, what that took, and what it is worth."""

from __future__ import annotations

from functools import cache

from grader.judging.points import speed_points
from grader.judging.rubric import load_rubric
from grader.reporting.benchmarks import SHOWN, Entry, Record, load
from grader.reporting.terminal import number
from grader.reporting.whole_models import ROOT
from grader.unusable import Unusable


@cache
def _record() -> Record | None:
    try:
        return load(ROOT / SHOWN)
    except Unusable:
        return None


def standing_text(lab_id: str, rung: str) -> str:
    """The sentences; "" where the kernel stands at the solution, and where nobody timed that rung."""
    record = _record()
    if record is None or not (named := rung.split("_", 2)[1:]):
        return ""
    timed = [one for one in record.timed(lab_id, "ladder") if one.contestant == f"ladder/{rung}"]
    if not timed:
        return ""
    points = speed_points(record.gpu, lab_id).get(named[1])
    worth = (
        "hardly faster than the steps before it, so it has no points of its own"
        if points is None
        else f"{points:.0f} of {number(load_rubric().speed)} points for speed"
    )
    return (
        f"The kernel is built like step {named[0]} of the table in {lab_id}.ipynb. On an {record.gpu} that step took: "
        f"{', '.join(map(_time, timed))}; {worth}."
    )


def _time(entry: Entry) -> str:
    sparse = "" if entry.sparsity is None else f" at sparsity {entry.sparsity}"
    return f"M = {entry.M}{sparse}: {entry.time_us:.1f} us"
