"""GPTQ probed: nibbles less a zero point of 8 throughout, scales of 1; then scales, then zero points that all differ."""

from __future__ import annotations

import torch

from grader.labs.gptq.packing import levels, pack_weight, pack_zeros
from grader.labs.probe import Probe, ScaleProbe, SubtractedProbe
from grader.model import Problem

ZERO = 8


def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Random nibbles without 8, so that no weight is zero; zero points of 8."""
    N, K = (problem.scalars[name] for name in ("N", "K"))
    q = torch.randint(0, 15, (K, N), generator=generator)
    q = torch.where(q >= ZERO, q + 1, q)
    return {
        "qweight_ptr": pack_weight(q),
        "zeros_ptr": pack_zeros(torch.full((K // problem.scalars["group_size"], N), ZERO)),
        "scales_ptr": torch.ones(K // problem.scalars["group_size"], N),
    }


def zeros(problem: Problem, generator: torch.Generator) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Zero points of 1 to 16, another one for each group of each column."""
    N, K = (problem.scalars[name] for name in ("N", "K"))
    drawn = torch.randint(1, 17, (K // problem.scalars["group_size"], N), generator=generator)
    return {"zeros_ptr": pack_zeros(drawn)}, drawn.double()


def dense(problem: Problem) -> torch.Tensor:
    """q - (z + 1), float64 [N, K]."""
    q, zero, _ = levels(problem)
    return (q - zero).t()


PROBE = Probe(
    weight,
    dense=dense,
    scales=(ScaleProbe("scales_ptr", "n", "scale", group="group_size"),),
    few_values=True,
    subtracted=SubtractedProbe("zero point", "group_size", zeros),
)
