"""judge: from what was run to a lab's report, the same for every road: findings, reasons, memory, points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grader.building import BuildOptions
from grader.diagnosis.explaining import Failure
from grader.diagnosis.reasons import reasons
from grader.judging.checking import Finding, References, check, defined, order_left_open
from grader.judging.judged import Judged
from grader.judging.memory import sentences
from grader.judging.remarks import open_loads, remarks, undefined
from grader.judging.rubric import Rubric, Tiers
from grader.judging.scoring import score
from grader.judging.slice_sums import Added, added
from grader.labs import Lab, offsets
from grader.model import KernelBundle, KernelSource, LabReport, Outcome, Problem, SpeedSample, ToolWatch
from grader.running.interpreter import InterpretOptions, interpret


@dataclass(frozen=True)
class Ran:
    """What became of a lab's launches. watched: those whose every access the interpreter looked at. samples: None without a GPU.
    tool: what a tool on the GPU saw of the accesses of others."""

    outcomes: Sequence[Outcome]
    watched: Sequence[Outcome]
    samples: Sequence[SpeedSample] | None = None
    tool: Sequence[ToolWatch] = ()


@dataclass(frozen=True)
class Terms:
    """By what a lab is judged. tiers: None where speed is not graded. capabilities: what the kernel was checked to build for."""

    rubric: Rubric
    tiers: Tiers | None
    capabilities: tuple[int, ...]
    seed: int


def judge(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    ran: Ran,
    terms: Terms,
    how: InterpretOptions,
    *,
    checked: Sequence[Finding] | None = None,
    smallest: BuildOptions | None = None,
) -> LabReport:
    """The report of one lab. Needs no GPU.

    how: for launches that explain a wrong kernel. checked: the findings, where they are known already. smallest: how to build
    smaller problems where nothing explains a failure.
    """
    findings = findings_of(lab, source, bundle, problems, ran, how, terms.seed, checked)
    found = reasons(Failure(lab, source, bundle, problems, ran.outcomes, findings, ran.watched, how, smallest))
    diagnoses = found.diagnoses
    astray = {line: why for diagnosis in diagnoses if diagnosis for line, why in diagnosis.astray}
    right = all(finding.ok for finding in findings)
    located = sentences(lab, source, problems, ran.watched, astray=astray, right=right)
    judged = Judged(
        bundle, terms.capabilities, ran.outcomes, findings, ran.samples, diagnoses, ran.watched, located, ran.tool
    )
    said = remarks(source, bundle, ran.watched, lab.output) + _left_to_chance(
        lab, source, bundle, problems, ran, findings, how
    )
    return replace(score(lab, judged, terms.rubric, terms.tiers), source=source, defects=found.defects, remarks=said)


def _left_to_chance(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    ran: Ran,
    findings: Sequence[Finding],
    how: InterpretOptions,
) -> tuple[str, ...]:
    """That a right Y depends on what masks without `other` leave out, which is undefined, and zero by luck."""
    lines = open_loads(source)
    if not lines or not all(finding.ok for finding in findings):
        return ()
    public = [one for one in ran.watched if one.status == "ran" and not lab.case(one.case).hidden]
    if not public:
        return ()
    asked = min(public, key=lambda one: (one.case != "all_tails", one.case != "odd_m"))
    (again,) = interpret(lab, source, bundle, problems, [(asked.case, asked.config)], replace(how, poison_masked=True))
    if again.status != "ran" or check(lab, problems[asked.case], again, bundle).ok:
        return ()
    return (f"no points lost, but {undefined(source, lines, 'Y')}",)


def findings_of(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    ran: Ran,
    how: InterpretOptions,
    seed: int,
    checked: Sequence[Finding] | None = None,
) -> list[Finding]:
    """What is right and wrong of every outcome, with what the interpreter saw of the same launches. how, checked: as `judge`."""
    known: References = {}
    findings = (
        checked if checked is not None else [check(lab, problems[one.case], one, bundle, known) for one in ran.outcomes]
    )
    judged = in_every_order(ran, with_fewer_slices(lab, bundle, problems, ran, findings, known))
    return _in_another_order(lab, source, bundle, problems, ran, judged, how, seed)


def _in_another_order(
    lab: Lab,
    source: KernelSource,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    ran: Ran,
    findings: Sequence[Finding],
    how: InterpretOptions,
    seed: int,
) -> list[Finding]:
    """The findings, and no longer right where Y is wrong once an order that Triton leaves open is another one.

    What is right in the interpreter's order, or in that of one compiler, is right by luck, on both devices alike. Only launches that
    met such an order are interpreted again. seed: of the other orders.
    """
    judged = list(findings)
    left_open = {(one.case, one.config): one.left_open for one in ran.watched if one.status == "ran" and one.left_open}
    right = [(one.case, one.config) for one, finding in zip(ran.outcomes, findings, strict=True) if finding.ok]
    asked = [pair for pair in right if pair in left_open]
    again = {
        (one.case, one.config): one
        for one in interpret(lab, source, bundle, problems, asked, replace(how, shuffled=seed))
    }
    for number, outcome in enumerate(ran.outcomes):
        other = again.get((outcome.case, outcome.config))
        if other is None or other.status not in ("ran", "crash", "timeout"):
            continue
        if other.status != "ran" or not check(lab, problems[outcome.case], other, bundle).ok:
            message = order_left_open(source, left_open[outcome.case, outcome.config])
            judged[number] = replace(findings[number], ok=False, message=message, unordered=True)
    return judged


def with_fewer_slices(
    lab: Lab,
    bundle: KernelBundle,
    problems: Mapping[str, Problem],
    ran: Ran,
    findings: Sequence[Finding],
    known: References,
) -> list[Finding]:
    """The findings, and those again for which the tolerance allowed for slices that were not seen to add their share: by the
    interpreter, or where it did not follow the launch and its Y tells nothing, by a GPU in other launches of the config."""
    watched = {(one.case, one.config): one for one in ran.watched}
    judged = list(findings)
    for number, (outcome, finding) in enumerate(zip(ran.outcomes, findings, strict=True)):
        seen = watched.get((outcome.case, outcome.config))
        if not finding.ok or finding.slices == 1 or seen is outcome:
            continue
        slices = added(lab, problems[outcome.case], seen) if seen is not None else None
        if slices is None and outcome.rounded is None:
            others = [one.rounded for one in ran.outcomes if one.config == outcome.config and one.rounded is not None]
            slices = Added(offsets.counted(max(others), finding.slices)) if others else None
        if slices is not None and slices.slices < finding.slices:
            judged[number] = check(lab, problems[outcome.case], outcome, bundle, known, slices)
    return judged


def in_every_order(ran: Ran, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with what the interpreter saw of the same launches where a GPU ran them."""
    watched = {(one.case, one.config): one for one in ran.watched}
    return [
        defined(finding, watched.get((outcome.case, outcome.config), outcome))
        for outcome, finding in zip(ran.outcomes, findings, strict=True)
    ]
