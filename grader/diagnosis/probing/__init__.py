"""probe: what stays unnamed is run once more on inputs that answer by themselves, and the answer is read off the output.

Only what holds in every one of several draws of the numbers, or in two cases, is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from grader.diagnosis.probing import outputs, pairs, scales
from grader.diagnosis.probing.reading import Reading
from grader.judging.checking import compare
from grader.labs import Lab
from grader.labs.probe import OneHot, Probe, less, paired, places, probe_of, scaled, shifts
from grader.labs.problems import generator_for, make_problem
from grader.labs.slices import slices
from grader.model import KernelBundle, KernelSource, Outcome, Problem
from grader.running.interpreter import InterpretOptions, interpret

RUNS = 6
"""Draws of the numbers: sixteen values of a weight tell sixteen million elements apart in so many."""
MAX_SHIFTS = 8
"""Launches that look for a k whose product is wrong."""
MAX_PRODUCTS = 1 << 25
"""M N K of the largest case that is probed."""
MAX_READ = 4
"""Of how many failing cases the outputs are read."""


@dataclass(frozen=True)
class Probed:
    """What was read, and in which case."""

    case: str
    reading: Reading


def probe(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], failing: Sequence[Outcome],
    seed: int, options: InterpretOptions,
) -> Probed | None:  # fmt: skip
    """The first certain thing about the failing outcomes of public cases; None where there is none."""
    chosen = sorted((one for one in failing if one.y is not None), key=lambda one: _size(lab, one))
    found = _off_outputs(lab, source, bundle, problems, chosen, seed, options)
    if found is not None:
        return found
    small = [one for one in chosen if _size(lab, one) <= MAX_PRODUCTS and lab.case(one.case).M >= 8]
    small.sort(key=lambda one: one.case != "all_tails")
    return _off_probes(lab, source, bundle, problems, small[0], seed, options) if small else None


def _size(lab: Lab, outcome: Outcome) -> int:
    case = lab.case(outcome.case)
    return case.M * case.N * case.K


def _off_outputs(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], failing: Sequence[Outcome],
    seed: int, options: InterpretOptions,
) -> Probed | None:  # fmt: skip
    """What the outputs are to the right ones, said when two cases agree, or one case on values of another seed."""
    first: dict[str, Probed] = {}
    for one in failing[:MAX_READ]:
        said = _relation(lab, bundle, problems[one.case], one)
        if said is None:
            continue
        if said.name in first:
            return first[said.name]
        first[said.name] = Probed(one.case, said)
    if len(first) != 1:
        return None
    (found,) = first.values()
    one = next(one for one in failing if one.case == found.case)
    again = make_problem(lab, lab.case(one.case), seed + 1)
    (outcome,) = interpret(lab, source, bundle, {one.case: again}, [(one.case, one.config)], options)
    said = _relation(lab, bundle, again, outcome) if outcome.status == "ran" and outcome.y is not None else None
    return found if said is not None and said.name == found.reading.name else None


def _relation(lab: Lab, bundle: KernelBundle, problem: Problem, outcome: Outcome) -> Reading | None:
    assert outcome.y is not None
    return outputs.read(outcome.y, lab.reference(problem, _added(lab, bundle, problem, outcome)))


def _added(lab: Lab, bundle: KernelBundle, problem: Problem, outcome: Outcome) -> int:
    launch = bundle.launches.get((outcome.case, outcome.config))
    return slices(lab, bundle.configs[outcome.config], launch, *(problem.scalars[size] for size in ("M", "N", "K")))


def _off_probes(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], one: Outcome, seed: int,
    options: InterpretOptions,
) -> Probed | None:  # fmt: skip
    """Pairs first; where every pair is right, scales; where they are right too, that alone is said."""
    chosen, problem = probe_of(lab, lab.case(one.case)), problems[one.case]
    M, K = problem.scalars["M"], problem.scalars["K"]

    def drawn(kind: str, shift: int, run: int) -> OneHot:
        make = paired if kind == "pairs" else scaled
        k = places(M, K, shift, generator_for(seed, lab.id, one.case, "places", shift))
        return make(chosen, problem, k, generator_for(seed, lab.id, one.case, kind, shift, run))

    def launched(hot: Sequence[OneHot]) -> list[torch.Tensor] | None:
        return _launched(lab, source, bundle, one, hot, options)

    scan = [drawn("pairs", shift, 0) for shift in range(min(shifts(M, K), MAX_SHIFTS))]
    if not all(_is_one_product(lab, chosen, each) for each in scan) or (y := launched(scan)) is None:
        return None
    wrong = [shift for shift, each in enumerate(scan) if _runs(chosen, [each], y[shift : shift + 1]).wrong.any()]
    if wrong:
        more = [drawn("pairs", wrong[0], run) for run in range(1, RUNS)]
        after = launched(more)
        if after is None:
            return None
        said = pairs.read(_runs(chosen, [scan[wrong[0]], *more], [y[wrong[0]], *after]))
        return Probed(one.case, said) if said else None
    if chosen.scales:
        hot = [drawn("scales", 0, run) for run in range(RUNS)]
        after = launched(hot)
        if after is None:
            return None
        values = [np.array([each.problem.tensors[scale.tensor].double().flatten().numpy() for each in hot]) for scale in chosen.scales]
        said = scales.read(_runs(chosen, hot, after), chosen.scales, values, problem.scalars)
        if said is not None:
            return Probed(one.case, said)
        if not all(compare(output, lab.reference(each.problem, 1)).ok for each, output in zip(hot, after, strict=True)):
            return None
    if chosen.subtracted:
        k = places(M, K, 0, generator_for(seed, lab.id, one.case, "places", 0))
        both = [less(chosen, problem, k, generator_for(seed, lab.id, one.case, "subtracted", run)) for run in range(RUNS)]
        hot, numbers = [each for each, _ in both], np.array([number.numpy() for _, number in both])
        after = launched(hot)
        if after is None:
            return None
        said = scales.read_subtracted(_runs(chosen, hot, after), chosen.subtracted, numbers, problem.scalars)
        if said is not None:
            return Probed(one.case, said)
        if not all(compare(output, lab.reference(each.problem, 1)).ok for each, output in zip(hot, after, strict=True)):
            return None
    if shifts(M, K) > MAX_SHIFTS:
        return None
    scaled_right = " and the scales of Y are right" if chosen.scales else ""
    if chosen.subtracted:
        scaled_right = f"{scaled_right}, the {chosen.subtracted.words}s too"
    return Probed(one.case, Reading(
        "sum_of_products",
        f"with one entry in each row of X that is not zero, the right elements meet for every k{scaled_right}; what goes wrong needs "
        "several products (the accumulator, its type, what a turn leaves to the next) or other numbers (fractions, negative or "
        "large ones, other scales)",
        f"the right elements meet{scaled_right}: what goes wrong is their sum, or what becomes of other numbers",
    ))  # fmt: skip


def _launched(
    lab: Lab, source: KernelSource, bundle: KernelBundle, one: Outcome, hot: Sequence[OneHot], options: InterpretOptions
) -> list[torch.Tensor] | None:
    """Y of each problem; None where a launch did not end as the case's did."""
    names = [f"{one.case} {number}" for number in range(len(hot))]
    problems = {name: each.problem for name, each in zip(names, hot, strict=True)}
    launches = {(name, one.config): bundle.launches[one.case, one.config] for name in names}
    outcomes = interpret(lab, source, replace(bundle, launches=launches), problems, list(launches), options)
    y = [outcome.y for outcome in outcomes if outcome.status == "ran" and outcome.y is not None and not outcome.changed]
    return y if len(y) == len(hot) else None


def _is_one_product(lab: Lab, chosen: Probe, each: OneHot) -> bool:
    """Whether the lab's own reference says that each output is the product that is looked for."""
    rows = torch.arange(len(each.k))
    product = each.value[rows, None] * chosen.dense(each.problem)[:, each.k].t()
    return bool(((lab.reference(each.problem, 1).y - product).abs() <= pairs.TOLERANCE * product.abs()).all())


def _runs(chosen: Probe, hot: Sequence[OneHot], y: Sequence[torch.Tensor]) -> pairs.Runs:
    return pairs.Runs(
        y=np.array([each.double().numpy() for each in y]),
        x=np.array([each.value.numpy() for each in hot]),
        w=np.array([chosen.dense(each.problem).numpy() for each in hot]),
        k=hot[0].k.numpy(),
    )
