"""For a page: what the right kernels of a report do to memory. Nobody asks for it where no page is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from grader.labs import all_labs
from grader.model import LabReport, Report
from grader.running.cpu import InterpretOptions
from grader.traffic import Traffic, Uncounted, count_tiles

JOBS = 2
SECONDS = 5.0
"""CPU time of one launch; a kernel that takes longer has no picture."""


def counted(report: Report) -> dict[str, Traffic]:
    """By lab id the traffic of each kernel that is right, on a few tiles of its first config."""
    right = [lab for lab in report.labs.values() if _right(lab)]
    with ThreadPoolExecutor(JOBS) as pool:
        found = zip(right, pool.map(_count, right), strict=True)
        return {lab.lab_id: one for lab, one in found if isinstance(one, Traffic) and not one.wrong}


def _right(lab: LabReport) -> bool:
    cases = [test for test in lab.tests if test.kind in ("correctness", "memory")]
    known = lab.lab_id in all_labs() and lab.source is not None and bool(lab.configs)
    return known and lab.status == "graded" and all(test.status == "passed" for test in cases)


def _count(lab: LabReport) -> Traffic | Uncounted:
    assert lab.source is not None
    return count_tiles(all_labs()[lab.lab_id], lab.source, InterpretOptions(1, case_seconds=SECONDS))
