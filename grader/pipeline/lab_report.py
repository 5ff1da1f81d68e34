"""lab_report: judges what was launched, with the interpreter for second launches and the diagnosis for reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.diagnosis.explaining import Failure
from grader.diagnosis.reasons import reasons
from grader.judging.checking import Finding
from grader.judging.judge import Launched, Pair, Reinterpret, Terms, judge
from grader.judging.judged import Reasons
from grader.model import LabReport, Outcome
from grader.running.cpu import InterpretOptions, interpret


def lab_report(
    launched: Launched,
    terms: Terms,
    how: InterpretOptions,
    *,
    checked: Sequence[Finding] | None = None,
) -> LabReport:
    """The report of one lab. Needs no GPU.

    how: for launches on the interpreter. checked: the findings, where they are known already.
    """

    def explain(findings: Sequence[Finding]) -> Reasons:
        one = launched
        return reasons(Failure(one.lab, one.source, one.bundle, one.problems, one.outcomes, findings, one.watched, how))

    return judge(launched, terms, reinterpreter(launched, how), explain, checked)


def reinterpreter(launched: Launched, how: InterpretOptions) -> Reinterpret:
    """How launches of this kernel are interpreted again."""

    def reinterpret(
        pairs: Sequence[Pair], *, shuffled: int | None = None, poison_masked: bool = False
    ) -> list[Outcome]:
        options = replace(how, shuffled=shuffled, poison_masked=poison_masked)
        return interpret(launched.lab, launched.source, launched.bundle, launched.problems, pairs, options)

    return reinterpret
