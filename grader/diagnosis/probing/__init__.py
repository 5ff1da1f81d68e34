"""probe: what stays unnamed is run once more on inputs that answer by themselves, and the answer is read off the output.

Only what holds in every one of several draws of the numbers, or in two cases, is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    return outputs.read(outcome.y, lab.reference(problem, _added(lab, bundle, problem, outcome)), written=outcome.written is True)


def _added(lab: Lab, bundle: KernelBundle, problem: Problem, outcome: Outcome) -> int:
    launch = bundle.launches.get((outcome.case, outcome.config))
    return slices(lab, bundle.configs[outcome.config], launch, *(problem.scalars[size] for size in ("M", "N", "K")))


class _NoAnswer(Exception):
    """A launch did not end as the case's did, or its output is wrong in a way that has no name: nothing is said."""


def _off_probes(
    lab: Lab, source: KernelSource, bundle: KernelBundle, problems: Mapping[str, Problem], one: Outcome, seed: int,
    options: InterpretOptions,
) -> Probed | None:  # fmt: skip
    """Pairs first; where every pair is right, scales, then what is subtracted; where they are right too, that alone is said."""
    probing = _Probing(lab, source, bundle, problems[one.case], one, seed, options, probe_of(lab, lab.case(one.case)))
    try:
        return Probed(one.case, probing.off_pairs() or probing.off_scales() or probing.off_subtracted() or probing.all_right())
    except _NoAnswer:
        return None


@dataclass(frozen=True)
class _Probing:
    """The probes of one outcome. What looks for a mistake gives None where there is none, and raises _NoAnswer."""

    lab: Lab
    source: KernelSource
    bundle: KernelBundle
    problem: Problem
    one: Outcome
    seed: int
    options: InterpretOptions
    chosen: Probe

    @property
    def shifts(self) -> int:
        return shifts(self.problem.scalars["M"], self.problem.scalars["K"])

    def off_pairs(self) -> Reading | None:
        """Which X[m, k] met which W[n, k]."""
        scan = [self._drawn(paired, "pairs", shift) for shift in range(min(self.shifts, MAX_SHIFTS))]
        if not all(_is_one_product(self.lab, self.chosen, each) for each in scan):
            raise _NoAnswer
        y = self._launched(scan)
        wrong = [shift for shift, each in enumerate(scan) if _runs(self.chosen, [each], y[shift : shift + 1]).wrong.any()]
        if not wrong:
            return None
        more = [self._drawn(paired, "pairs", wrong[0], run) for run in range(1, RUNS)]
        hot, after = [scan[wrong[0]], *more], [y[wrong[0]], *self._launched(more)]
        return _certain(pairs.read(_runs(self.chosen, hot, after)))

    def off_scales(self) -> Reading | None:
        """Which scales, from which places, an output has."""
        if not self.chosen.scales:
            return None
        hot = [self._drawn(scaled, "scales", 0, run) for run in range(RUNS)]
        y = self._launched(hot)
        values = [
            np.array([each.problem.tensors[scale.tensor].double().flatten().numpy() for each in hot]) for scale in self.chosen.scales
        ]
        said = scales.read(_runs(self.chosen, hot, y), self.chosen.scales, values, self.problem.scalars)
        if said is None:
            self._need_right(hot, y)
        return said

    def off_subtracted(self) -> Reading | None:
        """Which zero points were subtracted."""
        if not self.chosen.subtracted:
            return None
        made = [less(self.chosen, self.problem, self._places(0), self._generator("subtracted", run)) for run in range(RUNS)]
        hot, numbers = [each for each, _ in made], np.array([number.numpy() for _, number in made])
        y = self._launched(hot)
        said = scales.read_subtracted(_runs(self.chosen, hot, y), self.chosen.subtracted, numbers, self.problem.scalars)
        if said is None:
            self._need_right(hot, y)
        return said

    def all_right(self) -> Reading:
        """What is left when one product after the other is right."""
        if self.shifts > MAX_SHIFTS:  # some were never looked at
            raise _NoAnswer
        scaled_right = " and the scales of Y are right" if self.chosen.scales else ""
        if self.chosen.subtracted:
            scaled_right = f"{scaled_right}, the {self.chosen.subtracted.words}s too"
        return Reading(
            "sum_of_products",
            f"with one entry in each row of X that is not zero, the right elements meet for every k{scaled_right}; what goes wrong needs "
            "several products (the accumulator, its type, what a turn leaves to the next) or other numbers (fractions, negative or "
            "large ones, other scales)",
            f"the right elements meet{scaled_right}: what goes wrong is their sum, or what becomes of other numbers",
        )

    def _drawn(self, make: Callable[..., OneHot], kind: str, shift: int, run: int = 0) -> OneHot:
        return make(self.chosen, self.problem, self._places(shift), self._generator(kind, shift, run))

    def _places(self, shift: int) -> torch.Tensor:
        return places(self.problem.scalars["M"], self.problem.scalars["K"], shift, self._generator("places", shift))

    def _generator(self, *names: str | int) -> torch.Generator:
        return generator_for(self.seed, self.lab.id, self.one.case, *names)

    def _need_right(self, hot: Sequence[OneHot], y: Sequence[torch.Tensor]) -> None:
        if not all(compare(output, self.lab.reference(each.problem, 1)).ok for each, output in zip(hot, y, strict=True)):
            raise _NoAnswer

    def _launched(self, hot: Sequence[OneHot]) -> list[torch.Tensor]:
        """Y of each problem."""
        names = [f"{self.one.case} {number}" for number in range(len(hot))]
        problems = {name: each.problem for name, each in zip(names, hot, strict=True)}
        launches = {(name, self.one.config): self.bundle.launches[self.one.case, self.one.config] for name in names}
        outcomes = interpret(self.lab, self.source, replace(self.bundle, launches=launches), problems, list(launches), self.options)
        y = [outcome.y for outcome in outcomes if outcome.status == "ran" and outcome.y is not None and not outcome.changed]
        if len(y) != len(hot):
            raise _NoAnswer
        return y


def _certain(said: Reading | None) -> Reading:
    if said is None:
        raise _NoAnswer
    return said


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
