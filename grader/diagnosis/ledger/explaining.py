"""explain: failing outcomes -> what their kernel does wrong, read off a few recorded launches and confirmed on others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.provenance import Provenance
from grader.diagnosis.ledger.tape import parse
from grader.diagnosis.ledger.walk import ordered, walk
from grader.labs import Lab
from grader.labs.divergence import Finding
from grader.labs.problems import generator_for
from grader.labs.slices import slices
from grader.labs.stages import Stages, stages_of
from grader.model import KernelBundle, KernelSource, Outcome, Problem
from grader.running.interpreter import InterpretOptions, interpret

MAX_CASES = 4
MAX_FINDINGS = 6
MAX_PRODUCTS = 1 << 25
"""M N K of the largest case that is recorded."""
FIRST, SPREAD = 8, 4
"""How many programs are recorded: the first ones of each launch, and others evenly over all."""


@dataclass(frozen=True)
class _Attempt:
    """One launch to be recorded: a failing case and config, on the ledger's own values or on the case's."""

    case: str
    config: int
    problem: Problem


def explain(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], failing: Sequence[Outcome],
    seed: int, options: InterpretOptions,
) -> tuple[Finding, ...]:  # fmt: skip
    """Divergences in the order in which to fix them; none where the flow cannot be followed or the lab has no stages."""
    stages = stages_of(lab.id)
    chosen = _chosen(lab, bundle, failing) if stages else []
    if stages is None or not chosen:
        return ()
    for own_values in (True, False):
        asked = chosen[: MAX_CASES if own_values else 2]

        def look(these: Sequence[Outcome], repeat: int, own: bool = own_values) -> list[list[Finding]]:
            attempts = [_attempt(lab, stages, problems, outcome, seed + repeat, own) for outcome in these]
            return _recorded(lab, stages, source, bundle, attempts, options)

        if findings := _confirmed(asked, look):
            return tuple(findings)
    return ()


def _confirmed(asked: Sequence[Outcome], look: Callable[[Sequence[Outcome], int], list[list[Finding]]]) -> list[Finding]:
    """What the launches show, each finding found again on other values. A launch that only repeats others is not run again."""
    found = look(asked, 0)
    confirmed: set[int] = set()
    while True:
        best = ordered([finding for findings in found for finding in findings])[:MAX_FINDINGS]
        unsure = [n for n, findings in enumerate(found) if n not in confirmed and any(one in best for one in findings)]
        if not unsure:
            return best
        for number, again in zip(unsure, look([asked[n] for n in unsure], 1), strict=True):
            known = {(one.name, one.line) for one in again}
            found[number] = [one for one in found[number] if (one.name, one.line) in known]
        confirmed.update(unsure)


def _chosen(lab: Lab, bundle: KernelBundle, failing: Sequence[Outcome]) -> list[Outcome]:
    """The smallest failing cases with several tiles, and those in other layouts, which may hold mistakes of their own.

    Of several configs of a case the one with the largest tiles, whose flow is the shortest.
    """
    small = [outcome for outcome in failing if _size(lab, outcome) <= MAX_PRODUCTS and not lab.case(outcome.case).hidden]
    small.sort(key=lambda one: (_size(lab, one), math.prod(bundle.launches[one.case, one.config].grid)))
    plain = [outcome for outcome in small if _plain(lab, outcome)]
    tails = [outcome for outcome in plain if outcome.case == "all_tails"]
    chosen = [*tails, *(outcome for outcome in plain if outcome.case != "all_tails")][:2]
    names = {outcome.case for outcome in chosen}
    for outcome in small:
        if not _plain(lab, outcome) and outcome.case not in names:
            names.add(outcome.case)
            chosen.append(outcome)
    return chosen


def _plain(lab: Lab, outcome: Outcome) -> bool:
    case = lab.case(outcome.case)
    return case.x_layout == "contiguous" and case.y_layout == "contiguous"


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
) -> list[list[Finding]]:  # fmt: skip
    """What the walk finds in each attempt."""
    names = [f"{number} {one.case}" for number, one in enumerate(attempts)]
    pairs = [(name, one.config) for name, one in zip(names, attempts, strict=True)]
    launches = {pair: bundle.launches[one.case, one.config] for pair, one in zip(pairs, attempts, strict=True)}
    problems = {name: one.problem for name, one in zip(names, attempts, strict=True)}
    how = replace(options, record=_programs)
    outcomes = interpret(lab, source, replace(bundle, launches=launches), problems, pairs, how)
    return [_walked(lab, stages, bundle, one, outcome) for one, outcome in zip(attempts, outcomes, strict=True)]


def _walked(lab: Lab, stages: Stages, bundle: KernelBundle, attempt: _Attempt, outcome: Outcome) -> list[Finding]:
    if outcome.status != "ran" or outcome.y is None or not outcome.flow:
        return []
    problem, config, launch = attempt.problem, bundle.configs[attempt.config], bundle.launches[attempt.case, attempt.config]
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    reference = lab.reference(problem, slices(lab, config, launch, M, N, K))
    wrong = ~((outcome.y.double() - reference.y).abs() <= reference.bound)
    if not bool(wrong.any()) and not outcome.overrun:
        return []
    # What is recorded was made by a stranger's kernel: a flow that trips the walk is one that cannot be followed.
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        tape = parse(outcome.flow)
        provenance = Provenance(tape, stages.left.tensor, stages.right.tensor)
        findings = walk(Run(lab, stages, problem, config, launch.grid, tape, provenance, outcome.y.numpy(), wrong.numpy()))
        lines = [None if finding.line is None else bundle.made.origin(finding.line) for finding in findings]
        return [replace(finding, case=attempt.case, line=line) for finding, line in zip(findings, lines, strict=True)]
    return []
