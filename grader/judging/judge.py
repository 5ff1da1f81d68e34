"""judge: from what was run to a lab's report, the same for every road: findings, reasons, memory, points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from grader.judging.checking import Finding, References, check, defined, order_left_open
from grader.judging.judged import Judged, Reasons
from grader.judging.memory import sentences
from grader.judging.remarks import open_loads, remarks, undefined
from grader.judging.rubric import Rubric, Tiers
from grader.judging.scoring import score
from grader.judging.slice_sums import Added, added
from grader.labs import Lab, offsets
from grader.model import KernelBundle, KernelSource, LabReport, Outcome, Problem, SpeedSample, ToolWatch

Pair = tuple[str, int]
"""A case and a config."""
Explain = Callable[[Sequence[Finding]], Reasons]


class Again(Protocol):
    """Interprets launches again: with the orders that Triton leaves open drawn from a seed, or with poison where masks leave out."""

    def __call__(
        self, pairs: Sequence[Pair], *, shuffled: int | None = None, poison_masked: bool = False
    ) -> Sequence[Outcome]: ...


@dataclass(frozen=True)
class Launched:
    """A lab's kernel and what became of its launches.

    watched: those whose every access the interpreter followed. samples: None without a GPU. tool: what a tool on the GPU saw of
    the accesses of others.
    """

    lab: Lab
    source: KernelSource
    bundle: KernelBundle
    problems: Mapping[str, Problem]
    outcomes: Sequence[Outcome]
    watched: Sequence[Outcome]
    samples: Sequence[SpeedSample] | None = None
    tool: Sequence[ToolWatch] = ()

    def check(self, outcome: Outcome, known: References | None = None, slices: Added | None = None) -> Finding:
        """What is right and wrong of one outcome. known: references that were computed already; see `checking.check`."""
        return check(self.lab, self.problems[outcome.case], outcome, self.bundle, known, slices)

    @property
    def watched_by_pair(self) -> dict[Pair, Outcome]:
        """The launches that the interpreter followed, by case and config."""
        return {(one.case, one.config): one for one in self.watched}


@dataclass(frozen=True)
class Terms:
    """By what a lab is judged. tiers: None where speed is not graded. capabilities: what the kernel was checked to build for."""

    rubric: Rubric
    tiers: Tiers | None
    capabilities: tuple[int, ...]
    seed: int


def judge(
    launched: Launched, terms: Terms, again: Again, explain: Explain, checked: Sequence[Finding] | None = None
) -> LabReport:
    """The report of one lab. Needs no GPU.

    again: for what shows in a second launch only. explain: why wrong outcomes are wrong. checked: the findings, where they are
    known already.
    """
    lab, source, bundle = launched.lab, launched.source, launched.bundle
    findings = findings_of(launched, again, terms.seed, checked)
    found = explain(findings)
    astray = {line: why for diagnosis in found.diagnoses if diagnosis for line, why in diagnosis.astray}
    right = all(finding.ok for finding in findings)
    judged = Judged(
        bundle,
        terms.capabilities,
        launched.outcomes,
        findings,
        launched.samples,
        found.diagnoses,
        launched.watched,
        sentences(lab, source, launched.problems, launched.watched, astray=astray, right=right),
        launched.tool,
    )
    said = remarks(source, bundle, launched.watched, lab.output) + (_by_luck(launched, again) if right else ())
    graded = score(lab, judged, terms.rubric, terms.tiers)
    return replace(graded, source=source, defects=found.defects, remarks=said, walk=found.walk)


def _by_luck(launched: Launched, again: Again) -> tuple[str, ...]:
    """That a right Y depends on what masks without `other` leave out, which is undefined, and zero by luck."""
    lines = open_loads(launched.source)
    public = [one for one in launched.watched if one.status == "ran" and not launched.lab.case(one.case).hidden]
    if not lines or not public:
        return ()
    asked = min(public, key=lambda one: (one.case != "all_tails", one.case != "odd_m"))
    (poisoned,) = again([(asked.case, asked.config)], poison_masked=True)
    if poisoned.status != "ran" or launched.check(poisoned).ok:
        return ()
    return (f"no points lost, but {undefined(launched.source, lines, 'Y')}",)


def findings_of(launched: Launched, again: Again, seed: int, checked: Sequence[Finding] | None = None) -> list[Finding]:
    """What is right and wrong of every outcome, with what the interpreter saw of the same launches. again, checked: as `judge`."""
    known: References = {}
    findings = checked if checked is not None else [launched.check(one, known) for one in launched.outcomes]
    watched = launched.watched_by_pair
    defined_ones = [
        defined(finding, watched.get((outcome.case, outcome.config), outcome))
        for outcome, finding in zip(launched.outcomes, with_fewer_slices(launched, findings, known), strict=True)
    ]
    return _in_another_order(launched, defined_ones, again, seed)


def _in_another_order(launched: Launched, findings: Sequence[Finding], again: Again, seed: int) -> list[Finding]:
    """The findings, and no longer right where Y is wrong once an order that Triton leaves open is another one.

    What is right in the interpreter's order, or in that of one compiler, is right by luck, on both devices alike. Only launches that
    met such an order are interpreted again. seed: of the other orders.
    """
    judged = list(findings)
    left_open = {
        pair: one.left_open for pair, one in launched.watched_by_pair.items() if one.status == "ran" and one.left_open
    }
    right = [(one.case, one.config) for one, finding in zip(launched.outcomes, findings, strict=True) if finding.ok]
    asked = [pair for pair in right if pair in left_open]
    others = {(one.case, one.config): one for one in again(asked, shuffled=seed)}
    for number, outcome in enumerate(launched.outcomes):
        other = others.get((outcome.case, outcome.config))
        if other is None or other.status not in ("ran", "crash", "timeout"):
            continue
        if other.status != "ran" or not launched.check(other).ok:
            message = order_left_open(launched.source, left_open[outcome.case, outcome.config])
            judged[number] = replace(findings[number], ok=False, message=message, unordered=True)
    return judged


def with_fewer_slices(launched: Launched, findings: Sequence[Finding], known: References) -> list[Finding]:
    """The findings, and those again for which the tolerance allowed for slices that were not seen to add their share: by the
    interpreter, or where it did not follow the launch and its Y tells nothing, by a GPU in other launches of the config."""
    watched = launched.watched_by_pair
    judged = list(findings)
    for number, (outcome, finding) in enumerate(zip(launched.outcomes, findings, strict=True)):
        seen = watched.get((outcome.case, outcome.config))
        if not finding.ok or finding.slices == 1 or seen is outcome:
            continue
        slices = added(launched.lab, launched.problems[outcome.case], seen) if seen is not None else None
        if slices is None and outcome.rounded is None:
            same = [
                one.rounded for one in launched.outcomes if one.config == outcome.config and one.rounded is not None
            ]
            slices = Added(offsets.counted(max(same), finding.slices)) if same else None
        if slices is not None and slices.slices < finding.slices:
            judged[number] = launched.check(outcome, known, slices)
    return judged
