"""score: from findings to points, by the rubric; no other file knows what anything is worth."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
)
from grader.statistics import ratio

HERE = Path(__file__).parent

MAX_ERROR_MAPS = 3
HIDDEN = "the output is wrong; this case's data is hidden"


class BadRubric(ValueError):
    """A rubric or tier table that cannot be used; the message is one sentence."""


@dataclass(frozen=True)
class Rubric:
    """The numbers of rubric.toml."""

    correctness: float
    speed: float
    speed_needs_correctness: float
    tier_shares: tuple[float, ...]
    weights: Mapping[str, Mapping[str, float]]

    def shares(self, lab_id: str, names: Sequence[str], total: float) -> dict[str, float]:
        """Points of each named case, proportional to its weight."""
        weights = {name: float(self.weights.get(lab_id, {}).get(name, 1.0)) for name in names}
        whole = sum(weights.values()) or 1.0
        return {name: total * weight / whole for name, weight in weights.items()}


@dataclass(frozen=True)
class Tiers:
    """Tier boundaries by lab and speed case, for one GPU."""

    source: str
    calibrated: bool
    table: Mapping[str, Mapping[str, tuple[float, ...]]]
    default: tuple[float, ...]

    def boundaries(self, lab_id: str, case: str) -> tuple[float, ...]:
        """Ratios, ascending, at which a case's tiers begin."""
        return self.table.get(lab_id, {}).get(case, self.default)


@cache
def load_rubric(path: Path = HERE / "rubric.toml") -> Rubric:
    """Reads rubric.toml; raises BadRubric with the place for numbers that make no rubric."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rubric = Rubric(
            correctness=float(data["correctness"]),
            speed=float(data["speed"]),
            speed_needs_correctness=float(data.get("speed_needs_correctness", 0)),
            tier_shares=tuple(float(share) for share in data["tier_shares"]),
            weights={lab: {k: float(v) for k, v in table.items()} for lab, table in data.get("weights", {}).items()},
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRubric(f"{path.name} cannot be used ({error}); compare it with the one in the repository") from None
    numbers = [rubric.correctness, rubric.speed, *rubric.tier_shares]
    numbers += [weight for table in rubric.weights.values() for weight in table.values()]
    if any(number < 0 for number in numbers) or list(rubric.tier_shares) != sorted(rubric.tier_shares):
        raise BadRubric(f"{path.name} has a negative number or tier_shares that do not rise; correct it")
    return rubric


def slug(gpu: str) -> str:
    """A GPU's name as a file name: "NVIDIA H200" -> "nvidia_h200"."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_")


UNCALIBRATED = "uncalibrated.toml"


def load_tiers(gpu: str, capability: int | None = None, folder: Path = HERE / "tiers") -> Tiers:
    """The GPU's own tier table; without one that of its compute capability (sm_90.toml for 9.0), then uncalibrated.toml.

    Raises BadRubric with the file's name for a table that cannot be used.
    """
    default = _read_tiers(folder / UNCALIBRATED).get("default", [])
    own = folder / f"{slug(gpu)}.toml"
    shared = folder / f"sm_{capability}.toml"
    path = next((path for path in (own, shared) if path.exists()), folder / UNCALIBRATED)
    table = {
        lab: {case: _boundaries(path, values) for case, values in cases.items()}
        for lab, cases in _read_tiers(path).get("tiers", {}).items()
    }
    return Tiers(path.name, path == own, table, _boundaries(folder / UNCALIBRATED, default))


def _read_tiers(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadRubric(f"tiers/{path.name} cannot be used ({error}); write it anew with `make calibrate`") from None


def _boundaries(path: Path, values: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or numbers[0] <= 0 or list(numbers) != sorted(numbers):
        raise BadRubric(f"tiers/{path.name} has {values!r} where rising ratios above 0 are expected; correct it")
    return numbers


@dataclass(frozen=True)
class Judged:
    """What is known of one lab when points are given: findings by case and config, speed samples, build.

    diagnoses: one for each outcome, or none at all. memory: sentences of the memory checker.
    """

    bundle: KernelBundle
    capabilities: tuple[int, ...]
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]
    samples: Sequence[SpeedSample] | None
    diagnoses: Sequence[Diagnosis | None] = ()
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
    correctness = _correctness_tests(lab, judged, rubric)
    earned = sum(test.points for test in correctness)
    skipped = sum(test.max_points for test in correctness if test.status == "skipped")
    if all(test.status == "passed" for test in correctness):
        earned = rubric.correctness
    speed = _speed_tests(lab, judged, rubric, tiers, earned)
    status, message = _status(judged, correctness)
    speed_points = sum(test.points for test in speed)
    if speed and all(test.points == test.max_points for test in speed):
        speed_points = rubric.speed
    newest = max(judged.capabilities, default=None)
    facts: dict[int, BuildFacts] = {}
    for (capability, config, _), binary in sorted(judged.bundle.binaries.items()):
        if capability == newest:
            facts.setdefault(config, binary.facts)
    return LabReport(
        lab_id=lab.id,
        title=lab.title,
        status=status,
        message=message,
        tests=(*_build_tests(judged), *correctness, _memory_test(judged), *speed),
        correctness_points=earned,
        correctness_max=rubric.correctness,
        speed_status=_speed_status(judged, speed),
        speed_points=speed_points,
        speed_max=rubric.speed,
        gradable_points=rubric.correctness - skipped + (rubric.speed if judged.samples is not None else 0.0),
        configs=judged.bundle.configs,
        facts=facts,
        facts_capability=newest,
        error_maps=_error_maps(lab, judged.findings),
    )


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
    shares = rubric.shares(lab.id, [case.name for case in lab.cases], rubric.correctness)
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
            result = TestResult(
                case.name, "correctness", "skipped", 0.0, shares[case.name], skipped[0][1].message, metrics=metrics
            )
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


def _memory_test(judged: Judged) -> TestResult:
    ran = [outcome for outcome in judged.outcomes if outcome.status == "ran"]
    broken = [outcome for outcome in ran if outcome.overrun or outcome.changed]
    if not ran:
        return TestResult("memory", "memory", "skipped", 0.0, 0.0, "no launch finished")
    if judged.memory:
        return TestResult("memory", "memory", "failed", 0.0, 0.0, "\n".join(judged.memory))
    if broken:
        cases = ", ".join(dict.fromkeys(outcome.case for outcome in broken))
        message = f"wrote where it may not, in {cases}; grade with DEVICE=cpu to see the line"
        return TestResult("memory", "memory", "failed", 0.0, 0.0, message)
    checked = all(outcome.memory is not None for outcome in ran)
    what = "every access inside its tensor" if checked else "guard regions and inputs intact"
    return TestResult("memory", "memory", "passed", 0.0, 0.0, f"{what} in {len(ran)} launches")


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


def _status(judged: Judged, correctness: Sequence[TestResult]) -> tuple[LabStatus, str]:
    """timeout and crash name labs of which no case at all came to an end."""
    kinds = {outcome.status for outcome in judged.outcomes}
    if "ran" in kinds or "unsupported" in kinds or not kinds:
        return "graded", ""
    first = next(test.message for test in correctness if test.status == "failed")
    if "timeout" in kinds:
        return "timeout", first
    if "crash" in kinds:
        return "crash", first
    return "graded", first
