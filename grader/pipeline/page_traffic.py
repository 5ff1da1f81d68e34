"""For a page: what the right kernels of a report do to memory. Nobody asks for it where no page is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from grader.building import BuildOptions
from grader.labs import all_labs
from grader.model import LabReport, Refusal, Report
from grader.reporting.pictures import prepare
from grader.running.cpu import InterpretOptions
from grader.traffic import Traffic, count_traffic, describe_case, tiled_case

JOBS = 2
SECONDS = 5.0
"""CPU time of one launch; a kernel that takes longer has no picture."""


def counted(report: Report) -> dict[str, Traffic]:
    """By lab id the traffic of each kernel that is right, on a few tiles of its first config."""
    right = [lab for lab in report.labs.values() if _right(lab)]
    with ThreadPoolExecutor(JOBS) as pool:
        counting = pool.map(_count, right)
        if right:
            prepare()  # while they are counted
        found = zip(right, counting, strict=True)
        return {lab.lab_id: one for lab, one in found if isinstance(one, Traffic) and not one.wrong}


def _right(lab: LabReport) -> bool:
    cases = [test for test in lab.tests if test.kind in ("correctness", "memory")]
    known = lab.lab_id in all_labs() and lab.source is not None and bool(lab.configs)
    return known and lab.status == "graded" and all(test.status == "passed" for test in cases)


def _count(report: LabReport) -> Traffic | Refusal:
    lab, source = all_labs()[report.lab_id], report.source
    assert source is not None
    case = tiled_case(lab, report.configs[0])
    bundle = describe_case(lab, source, case, BuildOptions((90,), "check", 1))
    if isinstance(bundle, Refusal):
        return bundle
    return count_traffic(lab, source, bundle, case, 0, InterpretOptions(1, case_seconds=SECONDS))
