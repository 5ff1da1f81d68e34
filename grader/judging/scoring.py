"""score: from findings to test results; points.py adds the points.

About a hidden case, a student learns only the verdict and the kind of mistake: none of its messages, numbers, configs, times or lines
goes into a report, and it changes nothing in what is said about the other cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.judging.checking import Finding
from grader.judging.correctness_tests import correctness_tests, memory_test
from grader.judging.judged import Judged
from grader.judging.points import with_points
from grader.judging.rubric import Rubric, Tiers, load_rubric
from grader.judging.speed_tests import speed_tests
from grader.labs import Lab
from grader.model import (
    BuildFacts,
    ErrorMap,
    KernelBundle,
    KernelSource,
    LabReport,
    LabStatus,
    Refusal,
    TestResult,
    TestStatus,
)

MAX_ERROR_MAPS = 8


def refused(lab: Lab, refusal: Refusal, source: KernelSource | None = None, *, gpu: bool) -> LabReport:
    """The report of a lab whose kernel was never run. source: None if it could not be read. gpu: whether speed is graded."""
    rubric = load_rubric()
    gradable = rubric.correctness + (rubric.speed if gpu else 0.0)
    points = (0.0, rubric.correctness, "not_graded", 0.0, rubric.speed, gradable)
    return LabReport(lab.id, lab.title, refusal.status, refusal.message, (), *points, source=source, bonus=lab.bonus)


def score(lab: Lab, judged: Judged, rubric: Rubric, tiers: Tiers | None) -> LabReport:
    """The lab's report with its points."""
    cases, speed = correctness_tests(lab, judged), speed_tests(lab, judged)
    tests = (*_build_tests(lab, judged), *cases, memory_test(lab, judged), *speed)
    status, message = _status(lab, judged, cases)
    points = (0.0, 0.0, _speed_status(judged, speed), 0.0, 0.0, 0.0)
    newest = max(judged.capabilities, default=None)
    unscored = replace(
        LabReport(lab.id, lab.title, status, message, tests, *points, bonus=lab.bonus),
        configs=judged.bundle.configs,
        facts=facts_of(lab, judged.bundle, newest),
        facts_capability=newest,
        error_maps=_error_maps(lab, judged.findings),
    )
    return with_points(unscored, rubric, tiers if judged.samples is not None else None)


def facts_of(lab: Lab, bundle: KernelBundle, capability: int | None) -> dict[int, BuildFacts]:
    """For each config, the facts of the binary that is timed; none where it was not made."""
    timed = {config: launch.key for (case, config), launch in bundle.launches.items() if case == lab.timed}
    return {
        config: binary.facts
        for (built_for, config, key), binary in sorted(bundle.binaries.items())
        if built_for == capability and timed.get(config) == key
    }


def _error_maps(lab: Lab, findings: Sequence[Finding]) -> tuple[ErrorMap, ...]:
    """The error maps of the first failing public cases, one per case."""
    first: dict[str, ErrorMap] = {}
    for finding in findings:
        if finding.errors is not None and finding.errors.wrong and not lab.case(finding.errors.case).hidden:
            first.setdefault(finding.errors.case, finding.errors)
    return tuple(first.values())[:MAX_ERROR_MAPS]


def _build_tests(lab: Lab, judged: Judged) -> list[TestResult]:
    tests = []
    launched = {config for case, config in judged.bundle.launches if not lab.hides(case)}
    never = [
        (config, why)
        for (case, config), why in judged.bundle.refused.items()
        if config not in launched and not lab.hides(case)
    ]
    for capability in judged.capabilities:
        failures = [failure for failure in judged.bundle.failures if failure.capability == capability]
        broken = {failure.config for failure in failures}
        message = f"{len(launched - broken)} of {len(judged.bundle.configs)} configs compile"
        if broken & set(judged.bundle.working):  # for some sizes and strides
            message += " in every case"
        blamed = [failure.message for failure in failures if failure.gradable] + [why for _, why in never]
        reasons = blamed + [failure.message for failure in failures]
        if reasons:
            message += f"; {reasons[0]}"
        failed = len(broken | {config for config, _ in never})
        metrics = {"configs": len(judged.bundle.configs), "failed": failed}
        # skipped: for the compiler's own failures alone
        status: TestStatus = "failed" if blamed else "skipped" if reasons else "passed"
        tests.append(TestResult(f"build_sm{capability}", "build", status, 0.0, 0.0, message, metrics=metrics))
    return tests


def _speed_status(judged: Judged, speed: Sequence[TestResult]) -> str:
    if judged.samples is None:
        return "skipped"
    return "graded" if any(test.metrics for test in speed) else "failed"


def _status(lab: Lab, judged: Judged, cases: Sequence[TestResult]) -> tuple[LabStatus, str]:
    """ "timeout" and "crash" mean that no public case at all ran to its end."""
    lost = next((outcome.message for outcome in (*judged.outcomes, *judged.watched) if outcome.status == "lost"), "")
    if lost:
        return "not_graded", lost
    public = {case.name for case in lab.cases if not case.hidden}
    kinds = {outcome.status for outcome in judged.outcomes if outcome.case in public}
    first = next((test.message for test in cases if test.name in public and test.status == "failed"), "")
    if "ran" in kinds or "unsupported" in kinds or not kinds:
        return "graded", ""
    return "timeout" if "timeout" in kinds else "crash" if "crash" in kinds else "graded", first
