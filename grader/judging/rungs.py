"""Which step of the ladder a kernel is built like, by what its launches and its binaries tell: nothing is built or run for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grader.judging.rubric import SOLUTION
from grader.labs import Lab, speed_steps_of
from grader.labs.speed_step import ConfigFacts, Demand, SpeedStep, Unknown
from grader.model import KernelBundle

CAPABILITY = 90
"""What a step is judged by without a GPU of another kind: the one whose times the notebooks tell."""

MOST_CONFIGS = 4
"""So many configs of a kernel are looked at for one step, so that the answer comes soon where they have to be compiled."""


@dataclass(frozen=True)
class DemandResult:
    """One demand: whether it holds, and the sentence."""

    ok: bool
    text: str


def launched(lab: Lab, step: SpeedStep, bundle: KernelBundle) -> list[ConfigFacts]:
    """The configs that can be launched on the step's case, with what the launch tells."""
    found = []
    for index, config in enumerate(bundle.configs):
        if (launch := bundle.launches.get((step.case, index))) is not None:
            constants = {**lab.constants, **config.constants, **dict(launch.folded)}
            found.append(ConfigFacts(lab.case(step.case), config, launch.grid, constants))
    return found


def promising(step: SpeedStep, candidates: Sequence[ConfigFacts]) -> Sequence[ConfigFacts]:
    """The configs whose launch is as it should be; where there is none, the one that comes nearest."""
    launches = [demand for demand in step.demands if demand.quantity.needs == "launch"]

    def met(candidate: ConfigFacts) -> int:
        return sum(judgement(demand, candidate).ok for demand in launches)

    def preference(candidate: ConfigFacts) -> float:
        found = value(step.prefer, candidate)
        return -math.inf if isinstance(found, str) else found

    most = max(map(met, candidates))
    near = sorted((one for one in candidates if met(one) == most), key=preference, reverse=True)
    return near[:MOST_CONFIGS] if most == len(launches) else near[:1]


def judgement(demand: Demand, candidate: ConfigFacts) -> DemandResult:
    """Whether a demand holds, where its quantity's facts are there."""
    found = value(demand.quantity.of, candidate)
    return (
        DemandResult(False, found)
        if isinstance(found, str)
        else DemandResult(demand.holds(found), demand.sentence(found))
    )


def value(of: Callable[[ConfigFacts], float], candidate: ConfigFacts) -> float | str:
    """A number about a kernel, or the sentence why it cannot be told."""
    try:
        return of(candidate)
    except Unknown as problem:
        return f"{problem}."


def rung(steps: Sequence[SpeedStep], taken: int) -> str:
    """The last rung of the ladder to which the first `taken` steps lead and no other, or at which the next one begins; "" before them."""
    before = {step.rungs[1] for step in steps[taken:]}
    led = [step.rungs[1] for step in steps[:taken] if step.rungs[1] not in before]
    begun = [step.rungs[0] for step in steps[taken : taken + 1] if taken]
    return max(led + begun, key=lambda name: (name == SOLUTION, name), default="")


def standing(lab: Lab, bundle: KernelBundle) -> str:
    """The rung that a kernel is built like, by its launches and binaries; "" where it has taken no step, or they leave one open.

    A step that only memory traffic would tell counts as taken where a later one is.
    """
    steps = list(speed_steps_of(lab.id).values())
    if all(built_for != CAPABILITY for built_for, _, _ in bundle.binaries):
        return ""
    known = [_taken(lab, step, bundle) for step in steps]
    first = next((number for number, taken in enumerate(known) if taken is False), len(steps))
    sure = max((number + 1 for number in range(first) if known[number]), default=0)
    return rung(steps, sure) if sure == first else ""


def _taken(lab: Lab, step: SpeedStep, bundle: KernelBundle) -> bool | None:
    """Whether a step is taken with one of the configs; None where launches and binaries do not tell."""
    candidates = launched(lab, step, bundle)
    if not candidates:
        return None
    answers = {_met(step, candidate, bundle) for candidate in promising(step, candidates)}
    return True if True in answers else None if None in answers else False


def _met(step: SpeedStep, candidate: ConfigFacts, bundle: KernelBundle) -> bool | None:
    binary = bundle.binary(step.case, candidate.config.index, CAPABILITY)
    if binary is not None:
        candidate = replace(candidate, facts=binary.facts, loop=binary.loop)
    there = ("launch",) if binary is None else ("launch", "binary")
    values = [(one, value(one.quantity.of, candidate)) for one in step.demands if one.quantity.needs in there]
    held = [demand.holds(found) for demand, found in values if not isinstance(found, str)]
    return False if False in held else True if len(held) == len(step.demands) else None
