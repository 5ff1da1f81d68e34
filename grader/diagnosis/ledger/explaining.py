"""explain: failing outcomes -> what their kernel does wrong, read off a few recorded launches and confirmed on others."""

from __future__ import annotations

import ast
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.provenance import Provenance
from grader.diagnosis.ledger.settling import borne_out, consistent, ordered
from grader.diagnosis.ledger.tape import parse
from grader.diagnosis.ledger.walk import readable, walk
from grader.labs import Lab
from grader.labs.divergence import Divergence
from grader.labs.problems import generator_for
from grader.labs.slices import slices
from grader.labs.stages import Stages, stages_of
from grader.model import Config, KernelBundle, KernelSource, Launch, Outcome, Problem
from grader.parsing import parse as parse_source
from grader.running.interpreter import InterpretOptions, interpret

MAX_CASES = 5
MAX_FINDINGS = 6
MAX_PRODUCTS = 1 << 25
"""M N K of the largest case that is recorded."""
FIRST, SPREAD = 8, 4
"""How many programs are recorded: the first ones of each launch, and others evenly over all."""


@dataclass(frozen=True)
class Explained:
    """findings: divergences in the order in which to fix them. defects: where the ledger itself failed, one sentence each."""

    findings: tuple[Divergence, ...] = ()
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Attempt:
    """One launch to be recorded: a failing case and config, on the ledger's own values or on the case's."""

    case: str
    config: int
    problem: Problem


@dataclass(frozen=True)
class _Walked:
    """What one recorded launch shows, or where the reading itself failed. unread: Y is wrong, and no flow into it can be followed."""

    findings: tuple[Divergence, ...] = ()
    defect: str = ""
    unread: bool = False


def explain(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], failing: Sequence[Outcome],
    seed: int, options: InterpretOptions,
) -> Explained:  # fmt: skip
    """What the kernel does wrong; nothing where the flow cannot be followed or the lab has no stages."""
    stages = stages_of(lab.id)
    chosen = _chosen(lab, stages, bundle, failing) if stages else []
    if stages is None or not chosen:
        return Explained()
    defects: dict[str, None] = {}
    unread: list[bool] = []
    for own_values in (True, False):

        def look(these: Sequence[Outcome], repeat: int, own: bool = own_values) -> list[tuple[Divergence, ...]]:
            attempts = [_attempt(lab, stages, problems, outcome, seed + repeat, own) for outcome in these]
            walked = _recorded(lab, stages, source, bundle, attempts, options)
            defects.update(dict.fromkeys(one.defect for one in walked if one.defect))
            unread.extend(one.unread for one in walked)
            return [one.findings for one in walked]

        asked = [*(first := chosen[: MAX_CASES if own_values else 2]), *_unwritten(lab, failing, first)]
        if findings := _confirmed(asked, [_layout(lab, outcome) for outcome in asked], look):
            return Explained(findings, tuple(defects))
        if all(unread):  # nor could it be with other values
            break
    return Explained((), tuple(defects))


def _confirmed(
    asked: Sequence[Outcome], layouts: Sequence[tuple[str, str]],
    look: Callable[[Sequence[Outcome], int], list[tuple[Divergence, ...]]],
) -> tuple[Divergence, ...]:  # fmt: skip
    """What the launches show, each finding found again on other values. A launch that only repeats others is not run again.

    layouts: of X and of Y in each.
    """
    found = look(asked, 0)
    confirmed: set[int] = set()
    while True:
        best = ordered(consistent([finding for findings in borne_out(found, layouts) for finding in findings]))[:MAX_FINDINGS]
        unsure = [n for n, findings in enumerate(found) if n not in confirmed and any(one in best for one in findings)]
        if not unsure:
            return tuple(best)
        for number, again in zip(unsure, look([asked[n] for n in unsure], 1), strict=True):
            known = {(one.name, one.line) for one in again}
            found[number] = tuple(one for one in found[number] if (one.name, one.line) in known)
        confirmed.update(unsure)


def _chosen(lab: Lab, stages: Stages, bundle: KernelBundle, failing: Sequence[Outcome]) -> list[Outcome]:
    """The lab's telling cases, the smallest failing ones, and those in other layouts, which may hold mistakes of their own.

    Of several configs of a case the one with the largest tiles, whose flow is the shortest.
    """
    small = _small(lab, failing)
    small.sort(key=lambda one: (_size(lab, one), math.prod(bundle.launches[one.case, one.config].grid)))
    telling = {case: place for place, case in enumerate(stages.telling)}
    plain = [outcome for outcome in small if _layout(lab, outcome) == PLAIN]
    plain.sort(key=lambda one: telling.get(one.case, len(telling)))
    return [*plain[:2], *_laid_out(lab, small)]


def _unwritten(lab: Lab, failing: Sequence[Outcome], asked: Sequence[Outcome]) -> list[Outcome]:
    """The smallest case with elements that nobody wrote beside others, if none of those asked has any: it tells of a mistake of its own."""
    unwritten = [outcome for outcome in _small(lab, failing) if _in_part(outcome)]
    return [] if any(_in_part(outcome) for outcome in asked) else sorted(unwritten, key=lambda one: _size(lab, one))[:1]


def _in_part(outcome: Outcome) -> bool:
    return outcome.written is False and outcome.y is not None and bool(outcome.y.isfinite().any())


def _small(lab: Lab, failing: Sequence[Outcome]) -> list[Outcome]:
    """The failing outcomes of public cases that are small enough to be recorded."""
    return [outcome for outcome in failing if _size(lab, outcome) <= MAX_PRODUCTS and not lab.case(outcome.case).hidden]


def _laid_out(lab: Lab, small: Sequence[Outcome]) -> list[Outcome]:
    """Each case in another layout once, the smallest of each layout first."""
    seen: set[tuple[str, str]] = set()
    first: dict[str, Outcome] = {}
    later: dict[str, Outcome] = {}
    for outcome in small:
        layout = _layout(lab, outcome)
        if layout != PLAIN and outcome.case not in first:
            (later if layout in seen else first).setdefault(outcome.case, outcome)
            seen.add(layout)
    return [*first.values(), *later.values()]


PLAIN = ("contiguous", "contiguous")


def _layout(lab: Lab, outcome: Outcome) -> tuple[str, str]:
    """Of X and of Y."""
    case = lab.case(outcome.case)
    return case.x_layout, case.y_layout


def _size(lab: Lab, outcome: Outcome) -> int:
    case = lab.case(outcome.case)
    return case.M * case.N * case.K


def _attempt(lab: Lab, stages: Stages, problems: Mapping[str, Problem], outcome: Outcome, seed: int, own: bool) -> _Attempt:
    problem = problems[outcome.case]
    if own:
        problem = stages.inputs(problem, generator_for(seed, lab.id, outcome.case, "ledger"))
    else:
        problem = lab.problem(lab.case(outcome.case), generator_for(seed, lab.id, outcome.case), torch.device("cpu"))
    return _Attempt(outcome.case, outcome.config, problem)


def _programs(count: int) -> tuple[int, ...]:
    spread = {count * i // SPREAD for i in range(SPREAD)} | {count - 1}
    return tuple(sorted({*range(min(FIRST, count)), *spread}))


def _recorded(
    lab: Lab, stages: Stages, source: KernelSource, bundle: KernelBundle, attempts: Sequence[_Attempt],
    options: InterpretOptions,
) -> list[_Walked]:  # fmt: skip
    """What the walk finds in each attempt."""
    names = [f"{number} {one.case}" for number, one in enumerate(attempts)]
    pairs = [(name, one.config) for name, one in zip(names, attempts, strict=True)]
    launches = {pair: bundle.launches[one.case, one.config] for pair, one in zip(pairs, attempts, strict=True)}
    problems = {name: one.problem for name, one in zip(names, attempts, strict=True)}
    how = replace(options, record=_programs)
    outcomes = interpret(lab, source, replace(bundle, launches=launches), problems, pairs, how)
    walks = walks_of(bundle.made.text)
    return [_walked(lab, stages, bundle, walks, one, outcome) for one, outcome in zip(attempts, outcomes, strict=True)]


def _walked(lab: Lab, stages: Stages, bundle: KernelBundle, walks: Mapping[int, int], attempt: _Attempt, outcome: Outcome) -> _Walked:
    if not outcome.flow:
        return _Walked()
    config, launch = bundle.configs[attempt.config], bundle.launches[attempt.case, attempt.config]
    try:
        with np.errstate(all="ignore"):
            run = run_of(lab, stages, config, launch, attempt.problem, outcome, walks)
            wrong = bool(run.wrong.any()) or bool(outcome.overrun)
            findings = walk(run) if wrong else []
            unread = wrong and not findings and not readable(run)
            places = [(finding.line, run.tape.caller(finding.line)) for finding in findings]
            lines = [[None if at is None else bundle.made.origin(at) for at in place] for place in places]
    except Exception as error:  # a stranger's kernel made the record: whatever trips the walk costs nobody more than a reason
        return _Walked(defect=defect(attempt.case, attempt.config, error))
    found = tuple(
        replace(finding, case=attempt.case, line=line, caller=caller) for finding, (line, caller) in zip(findings, lines, strict=True)
    )
    return _Walked(found, unread=unread)


def walks_of(text: str) -> dict[int, int]:
    """For each line of a module within a loop that holds another one: where the outermost such loop begins."""
    found: dict[int, int] = {}
    loops = [node for node in ast.walk(parse_source(text)) if isinstance(node, ast.For | ast.While)]
    for node in loops:
        end = node.end_lineno or node.lineno
        if any(node.lineno < inner.lineno <= end for inner in loops):
            found.update({line: min(node.lineno, found.get(line, node.lineno)) for line in range(node.lineno + 1, end + 1)})
    return found


def run_of(
    lab: Lab, stages: Stages, config: Config, launch: Launch, problem: Problem, outcome: Outcome, walks: Mapping[int, int] | None = None
) -> Run:  # fmt: skip
    """One recorded launch to be walked; of one that broke off, all is taken for wrong. Raises ValueError for a bad record."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    if outcome.y is None:
        y, wrong = torch.full((M, N), torch.nan), torch.ones(M, N, dtype=torch.bool)
    else:
        reference = lab.reference(problem, slices(lab, config, launch, M, N, K))
        y, wrong = outcome.y, ~((outcome.y.double() - reference.y).abs() <= reference.bound)
    tape = parse(outcome.flow)
    provenance = Provenance(tape, stages.left.tensor, stages.right.tensor, alone=bool(stages.subtracted))
    return Run(lab, stages, problem, config, launch.grid, tape, provenance, y.numpy(), wrong.numpy(), outcome.y is not None,
               walks or {})  # fmt: skip


def defect(case: str, config: int, error: Exception) -> str:
    """Where the ledger failed, for those who fix it; without a path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return (
        f"a defect of the grader: the ledger stopped in {case}, config {config} ({type(error).__name__}{place}); "
        "points do not depend on it; send this line and the kernel to whoever runs the grader"
    )
