"""explain: failing outcomes -> what their kernel does wrong, read off a few recorded launches and confirmed on others."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from grader.labs import Lab
from grader.labs.slices import slices
from grader.ledger.finding import Finding
from grader.ledger.pairs import Run
from grader.ledger.provenance import Provenance
from grader.ledger.stages import Stages, stages_of
from grader.ledger.tape import parse
from grader.ledger.walk import consistent, ordered, walk
from grader.model import Config, KernelBundle, KernelSource, Launch, Outcome, Problem
from grader.problems import generator_for
from grader.running.cpu import InterpretOptions, interpret

MAX_CASES = 4
MAX_FINDINGS = 6
MAX_PRODUCTS = 1 << 25
"""M N K of the largest case that is recorded."""
FIRST, SPREAD = 16, 8
"""How many programs are recorded: the first ones of each launch, and others evenly over all."""


@dataclass(frozen=True)
class Explained:
    """findings: divergences in the order in which to fix them. defects: where the ledger itself failed, one sentence each."""

    findings: tuple[Finding, ...] = ()
    defects: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Attempt:
    """One launch to be recorded: a failing case and config, on the ledger's own values or on the case's."""

    name: str
    case: str
    config: int
    problem: Problem


def explain(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], failing: Sequence[Outcome],
    seed: int, options: InterpretOptions,
) -> Explained:  # fmt: skip
    """What the kernel does wrong; nothing where the flow cannot be followed or the lab has no stages."""
    stages = stages_of(lab.id)
    chosen = _chosen(lab, failing) if stages else []
    if stages is None or not chosen:
        return Explained()
    defects: dict[str, None] = {}
    for own_values in (True, False):
        confirmed: list[Finding] = []
        attempts = [
            [_attempt(lab, stages, problems, outcome, seed + repeat, own_values) for repeat in range(2)]
            for outcome in chosen[: MAX_CASES if own_values else 2]
        ]
        read = _recorded(lab, stages, source, bundle, [one for pair in attempts for one in pair], options)
        defects.update(dict.fromkeys(read.defects))
        for first, second in attempts:
            here, again = read.findings.get(first.name, []), read.findings.get(second.name, [])
            known = {(finding.name, finding.line) for finding in again}
            confirmed += [replace(finding, case=first.case) for finding in here if (finding.name, finding.line) in known]
        if confirmed:
            return Explained(tuple(ordered(consistent(confirmed))[:MAX_FINDINGS]), tuple(defects))
    return Explained((), tuple(defects))


def _chosen(lab: Lab, failing: Sequence[Outcome]) -> list[Outcome]:
    """The smallest failing cases with several tiles, and those in other layouts, which may hold mistakes of their own."""
    small = [outcome for outcome in failing if _size(lab, outcome) <= MAX_PRODUCTS and not lab.case(outcome.case).hidden]
    small.sort(key=lambda outcome: _size(lab, outcome))
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
    return _Attempt(f"{outcome.case} {outcome.config} {seed}", outcome.case, outcome.config, problem)


def _programs(counts: Sequence[int]) -> tuple[int, ...]:
    spread = {count * i // SPREAD for count in counts for i in range(SPREAD)} | {count - 1 for count in counts}
    return tuple(sorted({*range(FIRST), *spread}))


@dataclass(frozen=True)
class _Read:
    """What was read off some launches: findings by the attempt's name, and where the reading itself failed."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)


def _recorded(
    lab: Lab, stages: Stages, source: KernelSource, bundle: KernelBundle, attempts: Sequence[_Attempt],
    options: InterpretOptions,
) -> _Read:  # fmt: skip
    launches = {(one.name, one.config): bundle.launches[one.case, one.config] for one in attempts}
    problems = {one.name: one.problem for one in attempts}
    how = replace(options, record=_programs([math.prod(launch.grid) for launch in launches.values()]))
    outcomes = interpret(lab, source, replace(bundle, launches=launches), problems, list(launches), how)
    read = _Read()
    for one, outcome in zip(attempts, outcomes, strict=True):
        if not outcome.flow:
            continue
        try:
            with np.errstate(all="ignore"):
                run = run_of(lab, stages, bundle.configs[one.config], launches[one.name, one.config], one.problem, outcome)
                findings = walk(run) if run.wrong.any() or outcome.overrun else []
        except Exception as error:  # a stranger's kernel made the record: whatever trips the walk costs nobody more than a reason
            read.defects.append(defect(one.case, one.config, error))
            continue
        read.findings[one.name] = [
            replace(finding, line=None if finding.line is None else bundle.made.origin(finding.line)) for finding in findings
        ]
    return read


def run_of(lab: Lab, stages: Stages, config: Config, launch: Launch, problem: Problem, outcome: Outcome) -> Run:
    """One recorded launch to be walked; of one that broke off, all is taken for wrong. Raises ValueError for a bad record."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    if outcome.y is None:
        y, wrong = torch.full((M, N), torch.nan), torch.ones(M, N, dtype=torch.bool)
    else:
        reference = lab.reference(problem, slices(lab, config, launch, M, N, K))
        y, wrong = outcome.y, ~((outcome.y.double() - reference.y).abs() <= reference.bound)
    tape = parse(outcome.flow)
    provenance = Provenance(tape, stages.left.tensor, stages.right.tensor)
    return Run(lab, stages, problem, config, launch.grid, tape, provenance, y.numpy(), wrong.numpy(), outcome.y is not None)


def defect(case: str, config: int, error: Exception) -> str:
    """Where the ledger failed, for those who mend it; without a path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return (f"a defect of the grader: the ledger stopped in {case}, config {config} ({type(error).__name__}{place}); "
            "points do not depend on it; send this line and the kernel to who runs the grader")  # fmt: skip
