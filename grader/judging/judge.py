"""judge: from a lab's launches to its report: findings, reasons, memory, points. Every pipeline ends here, with or without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from grader.judging.checking import Finding, References, check, order_left_open, reject_undefined
from grader.judging.judged import Judged, Reasons
from grader.judging.memory_sentences import sentences
from grader.judging.remarks import open_loads, remarks, seen_when_timed, undefined
from grader.judging.rubric import Rubric, Tiers
from grader.judging.scoring import score
from grader.judging.slice_sums import Added, added
from grader.labs import Lab, offsets
from grader.model import KernelBundle, KernelSource, LabReport, Outcome, Problem, SanitizerResult, SpeedSample

Pair = tuple[str, int]
"""A case and a config."""
Explain = Callable[[Sequence[Finding]], Reasons]


class Reinterpret(Protocol):
    """Interprets launches a second time: with orders that Triton leaves undefined drawn from the seed `shuffled`, or with poison in
    the elements that a mask without `other` leaves out."""

    def __call__(
        self, pairs: Sequence[Pair], *, shuffled: int | None = None, poison_masked: bool = False
    ) -> Sequence[Outcome]: ...


@dataclass(frozen=True)
class Launched:
    """A lab's kernel and the results of its launches.

    outcomes: one per correctness launch, of the GPU, or without one of the interpreter. watched: launches that the interpreter made and
    checked every access of; without a GPU these are the outcomes. samples: None without a GPU. sanitized: launches that ran under
    compute-sanitizer, because the interpreter cannot run them.
    """

    lab: Lab
    source: KernelSource
    bundle: KernelBundle
    problems: Mapping[str, Problem]
    outcomes: Sequence[Outcome]
    watched: Sequence[Outcome]
    samples: Sequence[SpeedSample] | None = None
    sanitized: Sequence[SanitizerResult] = ()

    def check(self, outcome: Outcome, known: References | None = None, slices: Added | None = None) -> Finding:
        """The finding on one outcome. known: references that were computed already; slices: see `checking.check`."""
        return check(self.lab, self.problems[outcome.case], outcome, self.bundle, known, slices)

    @property
    def watched_in_public(self) -> list[Outcome]:
        """The launches that the interpreter followed and a student may hear of."""
        return [one for one in self.watched if not self.lab.hides(one.case)]

    @property
    def watched_by_pair(self) -> dict[Pair, Outcome]:
        """The launches that the interpreter followed, by case and config."""
        return {(one.case, one.config): one for one in self.watched}


@dataclass(frozen=True)
class Terms:
    """What a lab is judged by. tiers: None where speed is not graded. capabilities: those that the kernel was built for. seed: of the
    orders that `Reinterpret` shuffles."""

    rubric: Rubric
    tiers: Tiers | None
    capabilities: tuple[int, ...]
    seed: int


def judge(
    launched: Launched,
    terms: Terms,
    reinterpret: Reinterpret,
    explain: Explain,
    checked: Sequence[Finding] | None = None,
) -> LabReport:
    """The report of one lab. Needs no GPU.

    reinterpret: for faults that only a second launch shows. explain: gives the reasons why outcomes are wrong. checked: the findings,
    if they are known already.
    """
    lab, source, bundle = launched.lab, launched.source, launched.bundle
    findings = findings_of(launched, reinterpret, terms.seed, checked)
    found = explain(findings)
    stray = {line: why for diagnosis in found.diagnoses if diagnosis for line, why in diagnosis.stray}
    right = all(finding.ok for finding in findings)
    judged = Judged(
        bundle,
        terms.capabilities,
        launched.outcomes,
        findings,
        launched.samples,
        found.diagnoses,
        launched.watched,
        sentences(lab, source, launched.problems, launched.watched, stray=stray, right=right),
        launched.sanitized,
    )
    said = remarks(source, bundle, launched.watched_in_public, lab.output)
    said += _by_luck(launched, reinterpret) if right else ()
    if launched.samples is None:
        said += seen_when_timed(lab, bundle, launched.watched_in_public)
    graded = score(lab, judged, terms.rubric, terms.tiers)
    return replace(graded, source=source, defects=found.defects, remarks=said, walk=found.walk)


def _by_luck(launched: Launched, reinterpret: Reinterpret) -> tuple[str, ...]:
    """The remark that a right Y depends on elements that a mask without `other` leaves out: undefined, and zero only by luck."""
    lines = open_loads(launched.source)
    public = [one for one in launched.watched_in_public if one.status == "ran"]
    if not lines or not public:
        return ()
    asked = min(public, key=lambda one: (one.case != "all_tails", one.case != "odd_m"))
    (poisoned,) = reinterpret([(asked.case, asked.config)], poison_masked=True)
    if poisoned.status != "ran" or launched.check(poisoned).ok:
        return ()
    return (f"no points lost, but {undefined(launched.source, lines, 'Y')}",)


def findings_of(
    launched: Launched, reinterpret: Reinterpret, seed: int, checked: Sequence[Finding] | None = None
) -> list[Finding]:
    """The finding on every outcome, given what the interpreter saw of the same launches. reinterpret, checked: as for `judge`."""
    known: References = {}
    findings = checked if checked is not None else [launched.check(one, known) for one in launched.outcomes]
    watched = launched.watched_by_pair
    judged = [
        reject_undefined(finding, watched.get((outcome.case, outcome.config), outcome))
        for outcome, finding in zip(launched.outcomes, with_fewer_slices(launched, findings, known), strict=True)
    ]
    return _in_another_order(launched, judged, reinterpret, seed)


def _in_another_order(
    launched: Launched, findings: Sequence[Finding], reinterpret: Reinterpret, seed: int
) -> list[Finding]:
    """The findings, made wrong where Y becomes wrong in another of the orders that Triton leaves undefined.

    A kernel that is right only in the interpreter's order, or in one compiler's, is right by luck. Only launches in which such an order
    occurred are interpreted again. seed: of the other orders.
    """
    judged = list(findings)
    left_open = {
        pair: one.left_open for pair, one in launched.watched_by_pair.items() if one.status == "ran" and one.left_open
    }
    right = [(one.case, one.config) for one, finding in zip(launched.outcomes, findings, strict=True) if finding.ok]
    asked = [pair for pair in right if pair in left_open]
    others = {(one.case, one.config): one for one in reinterpret(asked, shuffled=seed)}
    for number, outcome in enumerate(launched.outcomes):
        other = others.get((outcome.case, outcome.config))
        if other is None or other.status not in ("ran", "crash", "timeout"):
            continue
        if other.status != "ran" or not launched.check(other).ok:
            message = order_left_open(launched.source, left_open[outcome.case, outcome.config])
            judged[number] = replace(findings[number], ok=False, message=message, unordered=True)
    return judged


def with_fewer_slices(launched: Launched, findings: Sequence[Finding], known: References) -> list[Finding]:
    """The findings, checked again with a narrower tolerance where fewer slices of K added their share than the tolerance allowed for.

    The interpreter counts these slices. Where it could not follow the launch and Y itself does not tell, the count of the same config's
    other launches on the GPU is used.
    """
    watched = launched.watched_by_pair
    judged = list(findings)
    for number, (outcome, finding) in enumerate(zip(launched.outcomes, findings, strict=True)):
        seen = watched.get((outcome.case, outcome.config))
        if not finding.ok or finding.slices == 1 or seen is outcome:
            continue
        slices = added(launched.lab, launched.problems[outcome.case], seen) if seen is not None else None
        if slices is None and outcome.rounded is None:
            same = [
                one.rounded
                for one in launched.outcomes
                if one.config == outcome.config
                and one.rounded is not None
                and launched.lab.hides(one.case) <= launched.lab.hides(outcome.case)
            ]
            slices = Added(offsets.counted(max(same), finding.slices)) if same else None
        if slices is not None and slices.slices < finding.slices:
            judged[number] = launched.check(outcome, known, slices)
    return judged
