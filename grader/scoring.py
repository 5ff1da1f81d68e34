"""score: from findings to points, by the rubric.

Of a hidden case a student learns the verdict and the class of its mistake: no message, number, config, time or line of it
goes into a report, and nothing of it changes what is said of the other cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.checking import Finding, describe_case
from grader.diagnosis import Diagnosis
from grader.labs import Lab
from grader.model import (
    BuildFacts,
    ErrorMap,
    KernelBundle,
    LabReport,
    LabStatus,
    Outcome,
    Refusal,
    SpeedSample,
    TestResult,
    TestStatus,
)
from grader.rubric import Rubric, Tiers
from grader.statistics import ratio

MAX_ERROR_MAPS = 8
HIDDEN = "the output is wrong; this case's data is hidden"
HIDDEN_NOT_GRADED = "not gradable here; this case's data is hidden"


@dataclass(frozen=True)
class Judged:
    """What is known of one lab when points are given: findings by case and config, speed samples, build.

    diagnoses: one for each outcome, or none at all. watched: the launches whose every access the interpreter looked at:
    the outcomes themselves, or beside a GPU's those of the interpreter. memory: what was found there, in sentences.
    """

    bundle: KernelBundle
    capabilities: tuple[int, ...]
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]
    samples: Sequence[SpeedSample] | None
    diagnoses: Sequence[Diagnosis | None] = ()
    watched: Sequence[Outcome] = ()
    memory: Sequence[str] = ()


def refused(lab: Lab, refusal: Refusal, rubric: Rubric, gpu: bool) -> LabReport:
    """The report of a lab whose kernel was never run."""
    gradable = rubric.correctness + (rubric.speed if gpu else 0.0)
    return LabReport(
        lab.id, lab.title, refusal.status, refusal.message, (), 0.0, rubric.correctness,
        "not_graded", 0.0, rubric.speed, gradable,
    )  # fmt: skip


def score(lab: Lab, judged: Judged, rubric: Rubric, tiers: Tiers | None) -> LabReport:
    """Points for one lab."""
    cases = _correctness_tests(lab, judged, rubric)
    correctness = [*cases, _memory_test(lab, judged, rubric, cases)]
    earned = sum(test.points for test in correctness)
    skipped = sum(test.max_points for test in correctness if test.status == "skipped")
    if all(test.status == "passed" for test in correctness):
        earned = rubric.correctness
    speed = _speed_tests(lab, judged, rubric, tiers, earned)
    status, message = _status(lab, judged, cases)
    speed_points = sum(test.points for test in speed)
    if speed and all(test.points == test.max_points for test in speed):
        speed_points = rubric.speed
    newest = max(judged.capabilities, default=None)
    return LabReport(
        lab_id=lab.id,
        title=lab.title,
        status=status,
        message=message,
        tests=(*_build_tests(judged), *correctness, *speed),
        correctness_points=earned,
        correctness_max=rubric.correctness,
        speed_status=_speed_status(judged, speed),
        speed_points=speed_points,
        speed_max=rubric.speed,
        gradable_points=rubric.correctness - skipped + (rubric.speed if judged.samples is not None else 0.0),
        configs=judged.bundle.configs,
        facts=_facts(lab, judged.bundle, newest),
        facts_capability=newest,
        error_maps=_error_maps(lab, judged.findings),
    )


def _facts(lab: Lab, bundle: KernelBundle, capability: int | None) -> dict[int, BuildFacts]:
    """Of each config the facts of one binary, which a case that is not hidden launches."""
    public = {case.name for case in lab.all_cases if not case.hidden}
    launched = {(config, launch.key) for (case, config), launch in bundle.launches.items() if case in public}
    facts: dict[int, BuildFacts] = {}
    for (built_for, config, key), binary in sorted(bundle.binaries.items()):
        if built_for == capability and (config, key) in launched:
            facts.setdefault(config, binary.facts)
    return facts


def _error_maps(lab: Lab, findings: Sequence[Finding]) -> tuple[ErrorMap, ...]:
    """The maps of the first failing cases, one a case; none of a hidden case."""
    first: dict[str, ErrorMap] = {}
    for finding in findings:
        if finding.errors is not None and finding.errors.wrong and not lab.case(finding.errors.case).hidden:
            first.setdefault(finding.errors.case, finding.errors)
    return tuple(first.values())[:MAX_ERROR_MAPS]


def _build_tests(judged: Judged) -> list[TestResult]:
    tests = []
    for capability in judged.capabilities:
        failures = [failure for failure in judged.bundle.failures if failure.capability == capability]
        built = {config for sm, config, _ in judged.bundle.binaries if sm == capability}
        broken = {failure.config for failure in failures}
        message = f"{len(built - broken)} of {len(judged.bundle.configs)} configs compile"
        if failures:
            message += f"; {failures[0].message}"
        tests.append(
            TestResult(
                f"build_sm{capability}",
                "build",
                "failed" if failures else "passed",
                0.0,
                0.0,
                message,
                metrics={"configs": len(judged.bundle.configs), "failed": len(broken)},
            )
        )
    return tests


def _correctness_tests(lab: Lab, judged: Judged, rubric: Rubric) -> list[TestResult]:
    shares = rubric.shares(lab.id, [case.name for case in lab.cases], rubric.correctness - rubric.memory)
    tests = []
    for case in lab.cases:
        pairs = [(o, f) for o, f in zip(judged.outcomes, judged.findings, strict=True) if o.case == case.name]
        diagnoses = [d for o, d in zip(judged.outcomes, judged.diagnoses, strict=False) if o.case == case.name and d]
        wrong = [(o, f) for o, f in pairs if not f.ok and not f.skipped]
        skipped = [(o, f) for o, f in pairs if f.skipped]
        worst = max((f.worst for _, f in pairs if f.ok), default=0.0)
        metrics = {
            "configs": [o.config for o, _ in pairs],
            "seconds": round(sum(o.seconds for o, _ in pairs), 4),
            "error_over_bound": round(worst, 4) if worst == worst and worst != float("inf") else None,
        }
        if case.hidden:
            metrics = {}
        if wrong:
            outcome, finding = wrong[0]
            where = _config_note(outcome, len(wrong), len(pairs))
            message = HIDDEN if case.hidden else finding.message + where
            diagnosis = next((d for d in diagnoses if d.mistake), diagnoses[0] if diagnoses else None)
            result = TestResult(
                case.name,
                "correctness",
                "failed",
                0.0,
                shares[case.name],
                message,
                diagnosis=(diagnosis.text(hidden=case.hidden) or None) if diagnosis else None,
                metrics={
                    **metrics,
                    "mistake": (diagnosis.mistake or None) if diagnosis else None,
                    **({"mistakes": list(diagnosis.mistakes)} if diagnosis and diagnosis.mistakes else {}),
                },
            )
        elif skipped:
            message = HIDDEN_NOT_GRADED if case.hidden else skipped[0][1].message
            result = TestResult(case.name, "correctness", "skipped", 0.0, shares[case.name], message, metrics=metrics)
        else:
            result = TestResult(
                case.name,
                "correctness",
                "passed",
                shares[case.name],
                shares[case.name],
                describe_case(case),
                metrics=metrics,
            )
        tests.append(result)
    return tests


def _config_note(outcome: Outcome, wrong: int, ran: int) -> str:
    """Which config it was, by its number; the report lists the configs themselves."""
    if f"config {outcome.config}" in outcome.message:
        return ""
    share = f"{wrong} of {ran} configs fail, the first is " if ran > 1 else ""
    return f" [{share}config {outcome.config}]"


def _memory_test(lab: Lab, judged: Judged, rubric: Rubric, cases: Sequence[TestResult]) -> TestResult:
    """The memory test, worth points in the measure that cases are right: a kernel that touches nothing earns nothing.

    Hidden cases have no say in it.
    """
    public = [test for test in cases if not lab.case(test.name).hidden]
    outcomes = [outcome for outcome in judged.outcomes if not lab.case(outcome.case).hidden]
    watched = [outcome for outcome in judged.watched if not lab.case(outcome.case).hidden]
    whole = sum(test.max_points for test in public)
    share = sum(test.points for test in public) / whole if whole else 0.0

    def result(status: TestStatus, message: str, *, seen: bool = False) -> TestResult:
        points = rubric.memory * share if status == "passed" else 0.0
        return TestResult("memory", "memory", status, points, rubric.memory, message, metrics={"seen": True} if seen else {})

    broken = [outcome for outcome in outcomes if outcome.overrun or outcome.changed]
    ended = [outcome for outcome in watched if outcome.status == "ran"]
    unfinished = [outcome for outcome in watched if outcome.status not in ("ran", "unsupported", "lost")]
    if judged.memory:
        return result("failed", "\n".join(judged.memory), seen=True)
    if broken:
        names = dict.fromkeys(outcome.case for outcome in broken)
        return result("failed", f"wrote where it may not, in {', '.join(names)}; grade with DEVICE=cpu to see the line")
    if unfinished:
        return result(
            "failed", f"{len(unfinished)} of {len(watched)} launches did not finish, the first in {unfinished[0].case}; "
            "mend that first: what else they touch is unknown till then",
        )  # fmt: skip
    if ended:
        return result("passed", f"every access inside its tensor in {len(ended)} launches")
    ran = [outcome for outcome in outcomes if outcome.status == "ran"]
    if ran and len(ran) == len(outcomes):
        return result("passed", f"guard regions and inputs intact in {len(ran)} launches; the interpreter cannot run this kernel")
    return result("skipped", "no launch could be watched here")


def _speed_tests(lab: Lab, judged: Judged, rubric: Rubric, tiers: Tiers | None, earned: float) -> list[TestResult]:
    shares = rubric.shares(lab.id, [case.name for case in lab.speed_cases], rubric.speed)
    if judged.samples is None or tiers is None:
        return [
            TestResult(case.name, "speed", "skipped", 0.0, shares[case.name], "speed is graded on a GPU only")
            for case in lab.speed_cases
        ]
    tests = []
    enough = earned >= rubric.speed_needs_correctness * rubric.correctness
    for sample in judged.samples:
        share = shares[sample.case]
        if sample.status != "timed":
            status = "error" if sample.status == "error" else "failed"
            tests.append(TestResult(sample.case, "speed", status, 0.0, share, sample.message))  # type: ignore[arg-type]
            continue
        measured = ratio(sample.log_ratios)
        boundaries = tiers.boundaries(lab.id, sample.case)
        tier = sum(measured.value >= boundary for boundary in boundaries)
        part = rubric.tier_shares[min(tier, len(rubric.tier_shares)) - 1] if tier else 0.0
        control = ratio(sample.control_log_ratios)
        times = f"{sample.student_us:.1f} us against {sample.baseline_us:.1f} us"
        next_step = f"next tier at {boundaries[tier]:.2f}x" if tier < len(boundaries) else "top tier"
        message = f"{measured.value:.2f}x of cuBLAS fp16 ({times}), {next_step}"
        if not tiers.calibrated:
            message += " (uncalibrated)"
        if sample.message:
            message += f"; {sample.message}"
        if not enough:
            part, message = 0.0, f"{message}; no points before half of the correctness points are earned"
        tests.append(
            TestResult(
                sample.case,
                "speed",
                "passed" if part else "failed",
                share * part,
                share,
                message,
                metrics={
                    "ratio": round(measured.value, 4),
                    "ratio_low": round(measured.low, 4),
                    "ratio_high": round(measured.high, 4),
                    "rounds": measured.rounds,
                    "control": round(control.value, 5),
                    "student_us": round(sample.student_us, 3),
                    "baseline_us": round(sample.baseline_us, 3),
                    "floor_us": round(sample.floor_us, 3),
                    "bytes_moved": sample.bytes_moved,
                    "operations": sample.operations,
                    "tier": tier,
                    "tiers": list(boundaries),
                    "tier_table": tiers.source,
                    "calibrated": tiers.calibrated,
                    "config": sample.config,
                    "config_us": {str(index): round(time, 3) for index, time in sample.config_us.items()},
                    "note": sample.message,
                },
            )
        )
    return tests


def _speed_status(judged: Judged, speed: Sequence[TestResult]) -> str:
    if judged.samples is None:
        return "skipped"
    return "graded" if any(test.metrics for test in speed) else "failed"


def _status(lab: Lab, judged: Judged, cases: Sequence[TestResult]) -> tuple[LabStatus, str]:
    """timeout and crash name labs of which no case at all came to an end; hidden cases have no say."""
    lost = next((outcome.message for outcome in (*judged.outcomes, *judged.watched) if outcome.status == "lost"), "")
    if lost:
        return "not_graded", lost
    public = {case.name for case in lab.cases if not case.hidden}
    kinds = {outcome.status for outcome in judged.outcomes if outcome.case in public}
    first = next((test.message for test in cases if test.name in public and test.status == "failed"), "")
    if "ran" in kinds or "unsupported" in kinds or not kinds:
        return "graded", ""
    if "timeout" in kinds:
        return "timeout", first
    if "crash" in kinds:
        return "crash", first
    return "graded", first
