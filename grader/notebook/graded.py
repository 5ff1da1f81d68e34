"""The report on the kernel that a notebook has run: graded once, for each check that asks whether it is right."""

from __future__ import annotations

from pathlib import Path

from grader.building import BinaryCache, own_folder
from grader.labs import Lab
from grader.model import KernelSource, Report, Submission
from grader.notebook.cells import NotYet, Output, chosen_device, grading_by_nbgrader, sentence
from grader.pipeline.grading import GradeOptions, grade_submission

SEED = 20
"""Of the inputs while one works: the same kernel is told the same every time. Graded work meets others."""

_reports: dict[str, Report] = {}
"""The last report of each lab; its source says whether it still holds."""


def graded_before(lab_id: str, source: KernelSource) -> Report | None:
    """The report on this very kernel, where it was graded last of its lab."""
    known = _reports.get(lab_id)
    return known if known is not None and known.labs[lab_id].source == source else None


def graded_kernel(lab: Lab, source: KernelSource, output: Output) -> Report:
    """The report on a kernel, from before if that is known. Raises NotYet for one that does not build."""
    known = graded_before(lab.id, source)
    if known is not None:
        return known
    cache = None if grading_by_nbgrader() else BinaryCache(own_folder())
    options = GradeOptions(chosen_device()[0], seed=SEED, cache=cache)
    submission = Submission(f"{lab.id} in this notebook", Path.cwd(), {lab.id: source})
    try:
        report = grade_submission(submission, [lab], options, output.progress)
        if report.labs[lab.id].status != "graded":
            raise NotYet(sentence(report.labs[lab.id].message))
    except BaseException:
        output.clear()
        raise
    _reports[lab.id] = report
    return report
