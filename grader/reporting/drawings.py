"""Which pictures a lab's timed cases give: tiers and roofline."""

from __future__ import annotations

from grader.labs import all_labs
from grader.model import LabReport, Report, TestResult
from grader.reporting import pictures


def tiers(lab: LabReport) -> pictures.Picture | None:
    """A bar for each timed case; None where nothing was timed."""
    timed = _timed(lab)
    return pictures.speed_tiers(timed) if timed else None


def roofline(report: Report, lab: LabReport) -> pictures.Picture | None:
    """The lab's timed cases under roofs measured in this very report: cuBLAS at its best, and twice that for int8."""
    known = all_labs().get(lab.lab_id)
    usable = [test for test in _timed(lab) if test.metrics.get("operations") and test.metrics.get("floor_us")]
    if known is None or not usable:
        return None
    bandwidth = max(test.metrics["bytes_moved"] / test.metrics["floor_us"] / 1e3 for test in usable)
    best = _best_cublas(report)
    roofs = {"cuBLAS fp16 at its best here": best}
    if any(parameter.type == "*i8" for parameter in known.parameters):
        roofs["int8, twice that"] = 2 * best
    fields = ("operations", "bytes_moved", "student_us", "baseline_us")
    points = [pictures.RooflinePoint(test.name, *(test.metrics[name] for name in fields)) for test in usable]
    return pictures.roofline(points, bandwidth, roofs)


def _timed(lab: LabReport) -> list[TestResult]:
    return [test for test in lab.tests if test.kind == "speed" and "ratio" in test.metrics]


def _best_cublas(report: Report) -> float:
    """TFLOP/s of the fastest baseline of the report, which multiplies the dense fp16 weight."""
    rates = []
    for lab in report.labs.values():
        known = all_labs().get(lab.lab_id)
        for test in _timed(lab):
            if known is not None and test.metrics["baseline_us"]:
                case = known.case(test.name)
                rates.append(2 * case.M * case.N * case.K / test.metrics["baseline_us"] / 1e6)
    return max(rates, default=0.0)
