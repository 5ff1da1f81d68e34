"""What a lab tells a probe: inputs whose products and scales can be told apart by their value, and what they should make.

A lab has its `PROBE` in grader/labs/<id>/probe.py. A lab without one gets a generic probe: its own inputs with a one-hot X.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from grader.labs.contract import Lab
from grader.labs.stages import refilled
from grader.model import Case, Problem

SMALLEST, LARGEST = 17, 120
"""Entries of a one-hot X: whole numbers that fp16 holds and that int8 holds too."""
SCALE_STEPS, SCALE_STEP = 20, 2.0**-10
"""Scales of a probe are 1 + 2^-10 (1 to 20): near enough that x / s rounds to the same whole number whichever is used,
far enough apart that fp16 tells which it was. None is 1, which is what a missing scale would be."""
HELD = 13
"""The whole number that a one-hot X holds when scales are probed: fp16 products of it show each of their steps."""


@dataclass(frozen=True)
class ScaleProbe:
    """A factor of the result. axis: which index of Y picks its element. divides: X is divided by it before the product.

    group: the integer that says after how many k another row of elements begins; "" where one row is for all of K.
    """

    tensor: str
    axis: Literal["m", "n"]
    words: str
    divides: bool = False
    group: str = ""

    def own(self, k: torch.Tensor, N: int, scalars: Mapping[str, int]) -> torch.Tensor:
        """int64 [M, N]: which of its elements belongs to each output of a one-hot X, counted row by row."""
        if self.axis == "m":
            return torch.arange(len(k))[:, None].expand(-1, N)
        row = k // scalars[self.group] if self.group else torch.zeros_like(k)
        return row[:, None] * N + torch.arange(N)[None, :]


@dataclass(frozen=True)
class SubtractedProbe:
    """What is subtracted from weights, a row for each group of k. group: the integer that says how many k that is.

    draw(problem, generator): new values for its tensors, and the numbers that they stand for, float64 [groups, N].
    """

    words: str
    group: str
    draw: Callable[[Problem, torch.Generator], tuple[dict[str, torch.Tensor], torch.Tensor]]


@dataclass(frozen=True)
class Probe:
    """One lab's probe.

    weight(problem, generator): new values for the weight's tensors, random, and every scale 1.
    dense(problem): float64 [N, K], the weight that those values stand for, without scales.
    scales: the factors of Y besides the operands. few_values: whether the weight has so few values that a table of what
    each counts as can be read off. subtracted: what `weight` holds constant and `dense` has subtracted; None: nothing.
    """

    weight: Callable[[Problem, torch.Generator], dict[str, torch.Tensor]]
    dense: Callable[[Problem], torch.Tensor]
    scales: tuple[ScaleProbe, ...] = ()
    few_values: bool = False
    subtracted: SubtractedProbe | None = None


@dataclass(frozen=True)
class OneHot:
    """A problem whose X has one entry that is not zero in each row: `value[m]` at `k[m]`, in units of its scale."""

    problem: Problem
    k: torch.Tensor
    value: torch.Tensor


def probe_of(lab: Lab, case: Case) -> Probe:
    """The lab's probe, or the generic one for a case."""
    try:
        module = importlib.import_module(f"grader.labs.{lab.id}.probe")
    except ModuleNotFoundError:
        return _generic(lab, case)
    return module.PROBE  # type: ignore[no-any-return]


def _generic(lab: Lab, case: Case) -> Probe:
    """Weights as the lab draws them, with their scales in them."""

    def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
        drawn = lab.problem(case, generator, torch.device("cpu")).tensors
        return {name: tensor for name, tensor in drawn.items() if name not in ("x_ptr", lab.output)}

    return Probe(weight, lambda problem: lab.baseline_weight(problem).double())


def places(M: int, K: int, shift: int, generator: torch.Generator) -> torch.Tensor:
    """int64 [M]: a k for each row, spread over all of K, in random order. Shifts 0 to `shifts(M, K) - 1` have every k."""
    spread = (shift + shifts(M, K) * torch.arange(M)) % K
    return spread[torch.randperm(M, generator=generator)]


def shifts(M: int, K: int) -> int:
    """How many launches of M rows it takes until each k was hot once."""
    return -(-K // M)


def paired(probe: Probe, problem: Problem, k: torch.Tensor, generator: torch.Generator) -> OneHot:
    """Inputs for reading which elements meet: random whole numbers in X, random weights, scales of 1."""
    value = torch.randint(SMALLEST, LARGEST + 1, k.shape, generator=generator).double()
    tensors = probe.weight(problem, generator)
    return OneHot(refilled(problem, {"x_ptr": _x(problem, k, value), **tensors}), k, value)


def scaled(probe: Probe, problem: Problem, k: torch.Tensor, generator: torch.Generator) -> OneHot:
    """Inputs for reading which scales are used: the same number in each row of X, scales near 1 that all differ a little."""
    tensors = probe.weight(problem, generator)
    held = torch.full(k.shape, float(HELD), dtype=torch.float64)
    stored = held
    for scale in probe.scales:
        shape = tuple(problem.tensors[scale.tensor].shape)
        drawn = 1 + SCALE_STEP * torch.randint(1, SCALE_STEPS + 1, shape, generator=generator).double()
        tensors[scale.tensor] = drawn.to(problem.tensors[scale.tensor].dtype)
        stored = stored * drawn if scale.divides else stored
    return OneHot(refilled(problem, {"x_ptr": _x(problem, k, stored), **tensors}), k, held)


def less(probe: Probe, problem: Problem, k: torch.Tensor, generator: torch.Generator) -> tuple[OneHot, torch.Tensor]:
    """Inputs for reading what is subtracted, and the numbers of each group, float64 [groups, N]; scales are 1."""
    assert probe.subtracted is not None
    tensors = probe.weight(problem, generator)
    drawn, numbers = probe.subtracted.draw(problem, generator)
    held = torch.full(k.shape, float(HELD), dtype=torch.float64)
    return OneHot(refilled(problem, {"x_ptr": _x(problem, k, held), **tensors, **drawn}), k, held), numbers


def _x(problem: Problem, k: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    x = torch.zeros(tuple(problem.tensors["x_ptr"].shape), dtype=torch.float64)
    x[torch.arange(len(k)), k] = value
    return x.to(torch.float16)
