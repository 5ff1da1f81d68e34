"""reasons: why each failing outcome fails, by the surest that can be had.

First the ledger, which follows the flow; then likeness with known mistakes; then, where neither has a name, probing inputs that
answer by themselves, in a case where nothing was read or written out of bounds. All of it on public cases and within one budget.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grader.diagnosis.ledger.telling import tell, went_wrong
from grader.diagnosis.likeness import diagnose
from grader.diagnosis.probing import Probed, probe
from grader.judging.checking import Finding
from grader.judging.judged import Diagnosis
from grader.labs import Lab
from grader.model import KernelBundle, KernelSource, Outcome, Problem
from grader.running.interpreter import InterpretOptions

TELL_SECONDS = 90.0
"""No launch of the ledger or of a probe begins later than this after the first."""


@dataclass(frozen=True)
class Reasons:
    """diagnoses: one for each outcome, None where nothing failed or nothing is known. defects: where the ledger itself failed."""

    diagnoses: Sequence[Diagnosis | None]
    defects: tuple[str, ...] = ()


def reasons(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], outcomes: Sequence[Outcome],
    checked: Sequence[Finding], watched: Sequence[Outcome], seed: int, options: InterpretOptions,
    asked: Sequence[int] | None = None,
) -> Reasons:  # fmt: skip
    """Why each outcome that failed did.

    watched: the launches whose every access was looked at. asked: the outcomes that likeness is asked about; None: all.
    What is said of public cases comes from them alone. A hidden one gets the reason that was found there, else the class that
    its own output is like.
    """
    hidden = [number for number, outcome in enumerate(outcomes) if lab.hides(outcome.case)]
    public = [number for number in range(len(outcomes)) if number not in hidden]
    chosen = None if asked is None else [place for place, number in enumerate(public) if number in asked]
    of_public = [outcomes[i] for i in public], [checked[i] for i in public]
    found = _of_public(lab, source, bundle, problems, *of_public, watched, seed, options, chosen)
    if not hidden:
        return found
    told = next((diagnosis for diagnosis in found.diagnoses if diagnosis and diagnosis.told), None)
    of_hidden = [(outcomes[i], checked[i]) for i in hidden]
    answers = dict(zip(public, found.diagnoses, strict=True))
    answers.update(zip(hidden, _of_hidden(lab, bundle, problems, of_hidden, told), strict=True))
    return replace(found, diagnoses=[answers[number] for number in range(len(outcomes))])


def _of_hidden(
    lab: Lab, bundle: KernelBundle, problems: Mapping[str, Problem], hidden: Sequence[tuple[Outcome, Finding]], told: Diagnosis | None
) -> list[Diagnosis | None]:  # fmt: skip
    """told: what the ledger said of public cases."""
    alike = diagnose(lab, problems, bundle.configs, [outcome for outcome, _ in hidden], [finding for _, finding in hidden])
    return [told if told and went_wrong(*one) else diagnosis for one, diagnosis in zip(hidden, alike, strict=True)]


def _of_public(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], outcomes: Sequence[Outcome],
    checked: Sequence[Finding], watched: Sequence[Outcome], seed: int, options: InterpretOptions, asked: Sequence[int] | None,
) -> Reasons:  # fmt: skip
    end = time.monotonic() + TELL_SECONDS
    within = replace(options, cancelled=lambda: options.cancelled() or time.monotonic() > end)
    told = tell(lab, source, bundle, problems, outcomes, checked, seed, within, _astray(lab, watched), _faulty(lab, watched))
    if any(told.diagnoses):
        return Reasons(told.diagnoses, told.defects)
    answers = _alike(lab, bundle, problems, outcomes, checked, asked)
    if any(diagnosis and diagnosis.mistake for diagnosis in answers):
        return Reasons(answers, told.defects)
    seen = {(one.case, one.config) for one in watched if one.memory}  # what the memory checker has a line for is put right first
    failing = [
        one for one, finding in zip(outcomes, checked, strict=True) if _is_wrong(one, finding) and (one.case, one.config) not in seen
    ]
    probed = probe(lab, source, bundle, problems, failing, seed, within) if failing else None
    if probed is None:
        return Reasons(answers, told.defects)
    said = _diagnosis(probed)
    wrong = (one.status == "ran" and not finding.ok and not finding.skipped for one, finding in zip(outcomes, checked, strict=True))
    return Reasons([said if failed else answer for failed, answer in zip(wrong, answers, strict=True)], told.defects)


def _alike(
    lab: Lab, bundle: KernelBundle, problems: Mapping[str, Problem], outcomes: Sequence[Outcome], checked: Sequence[Finding],
    asked: Sequence[int] | None,
) -> list[Diagnosis | None]:  # fmt: skip
    """The known mistake that each of the outcomes asked about is like."""
    chosen = range(len(outcomes)) if asked is None else asked
    alike = diagnose(lab, problems, bundle.configs, [outcomes[i] for i in chosen], [checked[i] for i in chosen])
    found = dict(zip(chosen, alike, strict=True))
    return [found.get(number) for number in range(len(outcomes))]


def _astray(lab: Lab, watched: Sequence[Outcome]) -> frozenset[int]:
    """Lines of the module that access what is out of bounds in public cases."""
    public = [outcome for outcome in watched if not lab.case(outcome.case).hidden]
    return frozenset(one.line for outcome in public for one in outcome.memory or () if one.out_of_bounds and one.line is not None)


def _faulty(lab: Lab, watched: Sequence[Outcome]) -> frozenset[int | None]:
    """Lines of the module of all that the memory check found in public cases."""
    return frozenset(one.line for outcome in watched if not lab.case(outcome.case).hidden for one in outcome.memory or ())


def _is_wrong(outcome: Outcome, finding: Finding) -> bool:
    """Whether Y is wrong, by a kernel that left its inputs alone."""
    return went_wrong(outcome, finding) and outcome.status == "ran" and outcome.y is not None and not outcome.changed


def _diagnosis(probed: Probed) -> Diagnosis:
    said = probed.reading
    return Diagnosis(
        said.name, said.general, "", "", f"Read off the output, in `{probed.case}`: {said.text}",
        f"Read off the output: {said.general}", (said.name,),
    )  # fmt: skip
