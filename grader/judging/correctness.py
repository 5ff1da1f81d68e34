"""The correctness and memory tests of a lab: a verdict, points and a reason for each case.

Of a hidden case a student learns the verdict and the class of its mistake, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.judging.checking import Finding, describe_case
from grader.judging.judged import Diagnosis, Judged
from grader.judging.rubric import Rubric
from grader.labs import Lab
from grader.model import Case, Outcome, TestResult, TestStatus

HIDDEN = "the output is wrong; this case's data is hidden"
HIDDEN_NOT_GRADED = "not gradable here; this case's data is hidden"

Run = tuple[Outcome, Finding]


def correctness_tests(lab: Lab, judged: Judged, rubric: Rubric) -> list[TestResult]:
    """One test a case. It passes when every config that it ran with is right."""
    shares = rubric.shares(lab.id, [case.name for case in lab.cases], rubric.correctness - rubric.memory)
    return [_case_test(case, judged, shares[case.name]) for case in lab.cases]


def _case_test(case: Case, judged: Judged, worth: float) -> TestResult:
    runs = [(o, f) for o, f in zip(judged.outcomes, judged.findings, strict=True) if o.case == case.name]
    wrong = [(o, f) for o, f in runs if not f.ok and not f.skipped]
    skipped = [f for _, f in runs if f.skipped]
    metrics = {} if case.hidden else _metrics(runs)
    if wrong:
        diagnoses = [d for o, d in zip(judged.outcomes, judged.diagnoses, strict=False) if o.case == case.name and d]
        return _failed(case, runs, wrong, diagnoses, metrics, worth)
    if skipped:
        message = HIDDEN_NOT_GRADED if case.hidden else skipped[0].message
        return TestResult(case.name, "correctness", "skipped", 0.0, worth, message, metrics=metrics)
    return TestResult(case.name, "correctness", "passed", worth, worth, describe_case(case), metrics=metrics)


def _metrics(runs: Sequence[Run]) -> dict[str, Any]:
    worst = max((finding.worst for _, finding in runs if finding.ok), default=0.0)
    return {
        "configs": [outcome.config for outcome, _ in runs],
        "seconds": round(sum(outcome.seconds for outcome, _ in runs), 4),
        "error_over_bound": round(worst, 4) if worst == worst and worst != float("inf") else None,
    }


def _failed(
    case: Case, runs: Sequence[Run], wrong: Sequence[Run], diagnoses: Sequence[Diagnosis], metrics: dict[str, Any], worth: float
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
    return TestResult(case.name, "correctness", "failed", 0.0, worth, message, diagnosis=text, metrics=metrics)


def _config_note(outcome: Outcome, wrong: int, ran: int) -> str:
    """Which config it was, by its number; the report lists the configs themselves."""
    if f"config {outcome.config}" in outcome.message:
        return ""
    share = f"{wrong} of {ran} configs fail, the first is " if ran > 1 else ""
    return f" [{share}config {outcome.config}]"


def memory_test(lab: Lab, judged: Judged, rubric: Rubric, cases: Sequence[TestResult]) -> TestResult:
    """The memory test, worth points in proportion to the cases that are right: a kernel that touches nothing earns nothing.

    Hidden cases have no say in it.
    """
    public = [test for test in cases if not lab.case(test.name).hidden]
    whole = sum(test.max_points for test in public)
    share = sum(test.points for test in public) / whole if whole else 0.0
    outcomes = [outcome for outcome in judged.outcomes if not lab.case(outcome.case).hidden]
    watched = [outcome for outcome in judged.watched if not lab.case(outcome.case).hidden]
    status, message = _memory_verdict(judged.memory, outcomes, watched)
    points = rubric.memory * share if status == "passed" else 0.0
    metrics = {"seen": True} if judged.memory else {}
    return TestResult("memory", "memory", status, points, rubric.memory, message, metrics=metrics)


def _memory_verdict(found: Sequence[str], outcomes: Sequence[Outcome], watched: Sequence[Outcome]) -> tuple[TestStatus, str]:
    if found:
        return "failed", "\n".join(found)
    broken = dict.fromkeys(outcome.case for outcome in outcomes if outcome.overrun or outcome.changed)
    if broken:
        return "failed", f"wrote where it may not, in {', '.join(broken)}; grade with DEVICE=cpu to see the line"
    if unfinished := _unfinished(watched):
        return "failed", unfinished
    ended = [outcome for outcome in watched if outcome.status == "ran"]
    if ended:
        return "passed", f"every access inside its tensor in {len(ended)} launches"
    ran = [outcome for outcome in outcomes if outcome.status == "ran"]
    if ran and len(ran) == len(outcomes):
        return "passed", f"guard regions and inputs intact in {len(ran)} launches; the interpreter cannot run this kernel"
    return "skipped", "no launch could be watched here"


def _unfinished(watched: Sequence[Outcome]) -> str:
    """How many launches did not come to their end, and how many were never made; "" where all ended."""
    unfinished = [outcome for outcome in watched if outcome.status not in ("ran", "unsupported", "lost")]
    if not unfinished:
        return ""
    begun = [outcome for outcome in unfinished if not outcome.not_run]
    others = len(unfinished) - len(begun)
    said = [f"{len(begun)} of {len(watched) - others} launches did not finish, the first in {begun[0].case}"] if begun else []
    said += [f"{others} {'more ' if begun else ''}launch{'es were' if others > 1 else ' was'} not made"] if others else []
    return f"{', and '.join(said)}; fix that first: what else they touch is unknown until then"
