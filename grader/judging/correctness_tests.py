"""The correctness and memory tests of a lab: a verdict and a reason for each case; points: see grader/judging/points.py.

Of a hidden case a student learns the verdict and the class of its mistake, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.judging.checking import Finding, describe_case
from grader.judging.judged import Diagnosis, Judged
from grader.labs import Lab
from grader.model import Case, Outcome, SanitizerResult, TestResult, TestStatus

HIDDEN = "it fails; this case's data is hidden"
MAX_NAMED = 4
HIDDEN_NOT_GRADED = "not gradable here; this case's data is hidden"

Run = tuple[Outcome, Finding]


def correctness_tests(lab: Lab, judged: Judged) -> list[TestResult]:
    """One test a case that asks something of this kernel. It passes when every config that it ran with is right."""
    ran = {outcome.case for outcome in judged.outcomes}
    return [_case_test(case, judged) for case in lab.cases if case.configs != "few" or case.name in ran]


def _case_test(case: Case, judged: Judged) -> TestResult:
    runs = [(o, f) for o, f in zip(judged.outcomes, judged.findings, strict=True) if o.case == case.name]
    wrong = [(o, f) for o, f in runs if not f.ok and not f.skipped]
    skipped = [f for _, f in runs if f.skipped]
    metrics = {} if case.hidden else _metrics(runs)
    if wrong:
        diagnoses = [d for o, d in zip(judged.outcomes, judged.diagnoses, strict=False) if o.case == case.name and d]
        return _failed(case, runs, wrong, diagnoses, metrics)
    if skipped:
        message = HIDDEN_NOT_GRADED if case.hidden else skipped[0].message
        return _result(case, "skipped", message, metrics)
    return _result(case, "passed", describe_case(case), metrics)


def _result(
    case: Case, status: TestStatus, message: str, metrics: dict[str, Any], diagnosis: str | None = None
) -> TestResult:
    return TestResult(case.name, "correctness", status, 0.0, 0.0, message, diagnosis, metrics, case.hidden)


def _metrics(runs: Sequence[Run]) -> dict[str, Any]:
    worst = max((finding.worst for _, finding in runs if finding.ok), default=0.0)
    return {
        "configs": [outcome.config for outcome, _ in runs],
        "seconds": round(sum(outcome.seconds for outcome, _ in runs), 4),
        "error_over_bound": round(worst, 4) if worst == worst and worst != float("inf") else None,
    }


def _failed(
    case: Case, runs: Sequence[Run], wrong: Sequence[Run], diagnoses: Sequence[Diagnosis], metrics: dict[str, Any]
) -> TestResult:
    outcome, finding = wrong[0]
    message = HIDDEN if case.hidden else finding.message + _config_note(outcome, len(wrong), len(runs))
    diagnosis = next((d for d in diagnoses if d.mistake), diagnoses[0] if diagnoses else None)
    metrics = {**metrics, "mistake": (diagnosis.mistake or None) if diagnosis else None}
    if diagnosis and diagnosis.mistakes:
        metrics["mistakes"] = list(diagnosis.mistakes)
        if diagnosis.early and not case.hidden:
            metrics["early"] = True
    if not case.hidden:
        metrics["failing_configs"] = [one.config for one, _ in wrong]
    text = (diagnosis.text(hidden=case.hidden) or None) if diagnosis else None
    return _result(case, "failed", message, metrics, text)


def _config_note(outcome: Outcome, wrong: int, ran: int) -> str:
    """Which config it was, by its number; the report lists the configs themselves."""
    if f"config {outcome.config}" in outcome.message:
        return ""
    share = f"{wrong} of {ran} configs fail; the first is " if ran > 1 else ""
    return f" [{share}config {outcome.config}]"


def memory_test(lab: Lab, judged: Judged) -> TestResult:
    """The memory test. Hidden cases have no say in it. Cases of which a launch was seen by nobody are told: they give no points for it."""
    outcomes = [outcome for outcome in judged.outcomes if not lab.case(outcome.case).hidden]
    watched = [outcome for outcome in judged.watched if not lab.case(outcome.case).hidden]
    status, message = _memory_verdict(judged.memory, outcomes, watched, judged.sanitized)
    unfinished = "" if status == "failed" else _unfinished(watched)
    late = bool(unfinished) and not any(map(_ended_unseen, watched))
    metrics: dict[str, Any] = {"seen": True} if judged.memory else {}
    if late:
        metrics["late"] = True
    if (status == "passed" or late) and (unseen := _unseen(outcomes, watched, judged.sanitized)):
        metrics["unseen"] = unseen
    if unfinished:
        status, message = "failed", unfinished
    return TestResult("memory", "memory", status, 0.0, 0.0, message, metrics=metrics)


def _memory_verdict(
    found: Sequence[str], outcomes: Sequence[Outcome], watched: Sequence[Outcome], sanitized: Sequence[SanitizerResult]
) -> tuple[TestStatus, str]:
    """sanitized: launches that ran under compute-sanitizer."""
    if found:
        return "failed", "\n".join(found)
    broken = dict.fromkeys(outcome.case for outcome in outcomes if outcome.overrun or outcome.changed)
    if broken:
        return "failed", f"wrote outside its output, in {', '.join(broken)}; grade with DEVICE=cpu to see the line"
    if fault := next((one for one in sanitized if one.fault), None):
        return "failed", f"the kernel {fault.fault} (in `{fault.case}`, config {fault.config})"
    ended, unseen = sum(outcome.status == "ran" for outcome in watched), _unseen(outcomes, watched, sanitized)
    said = [f"every access inside its tensor in {ended} launches"] if ended else []
    if sanitized:
        seen = f"{len(sanitized)} launches, as compute-sanitizer saw on the GPU"
        said.append(f"every access inside an allocation in {seen}")
    if unseen:
        said.append(_not_seen(unseen, outcomes, watched))
    return "passed" if ended or sanitized else "skipped", "; ".join(said) or "no launch could be checked here"


def _ended_unseen(outcome: Outcome) -> bool:
    """Whether a launch ended in a way that leaves unknown what it accessed before."""
    return outcome.status == "crash" or (outcome.status == "timeout" and not outcome.not_run and outcome.memory is None)


def _unseen(outcomes: Sequence[Outcome], watched: Sequence[Outcome], sanitized: Sequence[SanitizerResult]) -> list[str]:
    """Cases with a launch whose accesses nobody saw."""
    seen = {(one.case, one.config) for one in watched if one.status == "ran"} | {
        (one.case, one.config) for one in sanitized
    }
    blind = [one for one in outcomes if (one.case, one.config) not in seen and one.status in ("ran", "unsupported")]
    return list(dict.fromkeys(one.case for one in blind))


def _not_seen(unseen: Sequence[str], outcomes: Sequence[Outcome], watched: Sequence[Outcome]) -> str:
    """Which cases nobody saw, why, and what to do."""
    named = ", ".join(unseen[:MAX_NAMED]) + (f" and {len(unseen) - MAX_NAMED} more" if len(unseen) > MAX_NAMED else "")
    why = next((one.message for one in watched if one.status == "unsupported" and one.case in unseen), "")
    ran = sum(one.status == "ran" for one in outcomes)
    intact = f"; guard regions and inputs are intact in {ran} launches" if ran else ""
    return f"not seen: {named}{f' ({why})' if why else ''}{intact}; avoid it, or grade on a GPU where compute-sanitizer is installed"


def _unfinished(watched: Sequence[Outcome]) -> str:
    """How many launches did not come to their end, and how many were never made; "" where all ended."""
    unfinished = [outcome for outcome in watched if outcome.status not in ("ran", "unsupported", "lost")]
    if not unfinished:
        return ""
    begun = [outcome for outcome in unfinished if outcome.status != "refused" and not outcome.not_run]
    others = len(unfinished) - len(begun)
    said = []
    if begun:
        said.append(f"{len(begun)} of {len(watched) - others} launches did not finish, the first in {begun[0].case}")
    if others:
        said.append(f"{others} {'more ' if begun else ''}launch{'es were' if others > 1 else ' was'} not made")
    return f"{', and '.join(said)}: what else they access is unknown"
