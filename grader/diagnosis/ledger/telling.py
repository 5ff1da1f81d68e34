"""tell: the ledger's findings as diagnoses of the failing cases, in the student's words and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grader.diagnosis.ledger.explaining import explain
from grader.diagnosis.likeness import diagnose
from grader.judging.checking import Finding as Checked
from grader.judging.judged import Diagnosis
from grader.labs import Lab
from grader.labs.divergence import TILE, Divergence
from grader.model import KernelBundle, KernelSource, Outcome, Problem
from grader.running.interpreter import InterpretOptions

LEADS_ASTRAY = ("row_end_ignored",)
"""Mistakes of a loop after which indices are read that there are not, and what lies where those lead to."""
ASKED = 3
"""How many of the smallest failing cases tell classes apart."""


@dataclass(frozen=True)
class Telling:
    """diagnoses: one for each outcome, None where nothing is said. defects: where the ledger itself failed."""

    diagnoses: list[Diagnosis | None]
    defects: tuple[str, ...] = ()


def tell(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], outcomes: Sequence[Outcome],
    checked: Sequence[Checked], seed: int, options: InterpretOptions, astray: frozenset[int] = frozenset(),
    faulty: frozenset[int | None] = frozenset(),
) -> Telling:  # fmt: skip
    """One diagnosis for each failing outcome, none at all where the ledger has nothing to say. `outcomes`: of public cases.

    An outcome that stored into its inputs is left to others: what it read later was not what the case holds. So is one that is
    wrong for the order of its programs alone, and one that was never run.
    astray: lines of the module that access what is out of bounds. faulty: those of all that the memory check found.
    """
    failing = [one for one in zip(outcomes, checked, strict=True) if went_wrong(*one)]
    if not failing or any(outcome.stored_inputs(lab.output) for outcome, _ in failing):
        return Telling([None] * len(outcomes))
    explained = explain(lab, source, bundle, problems, [outcome for outcome, _ in failing], seed, options)
    if not explained.findings:
        return Telling([None] * len(outcomes), explained.defects)
    mistake = _called(lab, bundle, problems, explained.findings[0].name.split(" or "), failing)
    diagnosis = _diagnosis(source, explained.findings, mistake, early=comes_first(explained.findings, astray, faulty))
    return Telling([diagnosis if went_wrong(*one) else None for one in zip(outcomes, checked, strict=True)], explained.defects)


def _diagnosis(source: KernelSource, findings: Sequence[Divergence], mistake: str, *, early: bool) -> Diagnosis:
    first = findings[0]
    return Diagnosis(
        mistake, first.reason, "", "", told(source, findings), general(source, findings),
        tuple(finding.name.split(" or ")[0] for finding in findings),
        early,
        tuple((finding.line, finding.astray) for finding in findings if finding.astray and finding.line is not None),
    )  # fmt: skip


def comes_first(findings: Sequence[Divergence], astray: frozenset[int], faulty: frozenset[int | None]) -> bool:
    """Whether the first finding is to be put right before what the memory check found: it may cause that, or all of it is explained.

    astray, faulty: as `tell` has them.
    """
    first, lines = findings[0], {finding.line for finding in findings if finding.reason}
    if first.rank <= TILE or first.name in LEADS_ASTRAY:
        return True
    return bool(first.reason) and (first.line in astray or (bool(faulty) and faulty <= lines))


def went_wrong(outcome: Outcome, finding: Checked) -> bool:
    """Whether a launch that was made is wrong, whatever the order of its programs."""
    ran = outcome.status in ("ran", "crash") and not outcome.not_run
    return ran and not (finding.ok or finding.skipped or finding.unordered)


def _called(
    lab: Lab, bundle: KernelBundle, problems: Mapping[str, Problem], names: Sequence[str], failing: Sequence[tuple[Outcome, Checked]]
) -> str:  # fmt: skip
    """Which of several classes a finding belongs to, where the flow alone does not tell: the one whose output is alike."""
    mistakes = tuple(mistake for name in names for mistake in lab.mistakes if mistake.name == name)  # the likelier first
    if len(mistakes) == 1:
        return mistakes[0].name
    if not mistakes or len(names) == 1:
        return names[0]
    small = sorted(failing, key=lambda one: one[0].y.numel() if one[0].y is not None else 0)[:ASKED]
    ran, found_of = [one for one, _ in small], [finding for _, finding in small]
    found = diagnose(replace(lab, mistakes=mistakes), problems, bundle.configs, ran, found_of)
    alike = Counter(diagnosis.mistake for diagnosis in found if diagnosis and diagnosis.mistake)
    return alike.most_common(1)[0][0] if alike else names[0]


def told(source: KernelSource, findings: Sequence[Divergence]) -> str:
    """The sentences, in the order in which to put things right."""
    texts = [finding.text(_place(source, finding)) for finding in findings]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"({i} of {len(texts)}) {text}" for i, text in enumerate(texts, 1))


def general(source: KernelSource, findings: Sequence[Divergence]) -> str:
    """The same without the numbers of a case."""
    return "; ".join(f"{_place(source, finding)}: {finding.reason or 'a stage holds other values than it should'}" for finding in findings)


def _place(source: KernelSource, finding: Divergence) -> str:
    if finding.line is None:
        return source.path.name
    called = f", called in {source.locate(finding.caller)}" if finding.caller is not None else ""
    return f"{source.locate(finding.line)}{called}"
