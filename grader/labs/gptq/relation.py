"""GPTQ's relation: X as it is meets (q - (z + 1)) s, with a scale and a zero point for each group of a column.

The zero point may be subtracted from the weight or, multiplied with a sum of X, from the result; the scale may be multiplied
into the weight or into a partial sum. What counts is what an element of X is multiplied with all in all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from grader.labs.expected import (
    Array,
    Held,
    Relation,
    Scale,
    Used,
    fp16_activations,
    nibble,
    packed_weight,
    refilled,
)
from grader.labs.gptq.packing import levels, pack_zeros
from grader.labs.inputs import normal, pack_int4
from grader.model import Problem

SCALES, ZEROS = "scales_ptr", "zeros_ptr"
ROUNDING = 2e-3
"""How far fp16 may take a weight off, in units of its parts q s and (z + 1) s."""


def _by_group(
    tensor: str,
    strides: tuple[str, str],
    columns: int,
    numbers: Callable[[Problem, int, int], tuple[float, ...]] | None = None,
) -> Scale:
    """A tensor with a row for each group along K, of which an element belongs to so many columns of the weight."""

    def at(problem: Problem, m: Array, n: Array, k: Array) -> Array:
        along_row, along_column = (problem.scalars[name] for name in strides)
        found: Array = k // problem.scalars["group_size"] * along_row + n // columns * along_column
        return found

    def words(problem: Problem, offset: int) -> str:
        along_row, along_column = (problem.scalars[name] for name in strides)
        if along_row >= along_column:
            row, column = offset // along_row, offset % along_row // along_column
        else:
            row, column = offset % along_column // along_row, offset // along_column
        return f"{tensor.removesuffix('_ptr')}[{row}, {column}]"

    return Scale(tensor, at, words, numbers)


def unsigned_nibble(problem: Problem, n: Array, k: Array, used: Used) -> Held:
    """0 to 15: the nibble of element k."""
    u = nibble(problem, n, k)
    return Held(u.astype(np.float64), bits=u)


def zero_points(problem: Problem, n: int, k: int) -> tuple[float, ...]:
    """What may be made of a word of zeros for a weight: z, z + 1, or either with another sign."""
    zero = float(levels(problem)[1][k, n])
    return (zero, zero - 1, -zero, 1 - zero)


def weight(problem: Problem) -> Held:
    """(q - (z + 1)) s of every weight, [N, K]."""
    q, zero, scale = (level.t().numpy() for level in levels(problem))
    return Held((q - zero) * scale, ROUNDING * (q + zero) * np.abs(scale))


def weight_words(problem: Problem, n: int, k: int) -> str:
    """How a weight comes about, in numbers."""
    q, zero, scale = (float(level[k, n]) for level in levels(problem))
    return f"({q:.0f} - ({zero - 1:.0f} + 1)) * {scale:.4g}"


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, every nibble and every zero point in every position, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    groups = K // problem.scalars["group_size"]
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    q = torch.randint(0, 16, (K, N), generator=generator)
    zeros = torch.randint(1, 17, (groups, N), generator=generator)
    scales = (0.02 + 0.05 * torch.rand(groups, N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "qweight_ptr": pack_int4(q), ZEROS: pack_zeros(zeros), SCALES: scales})


RELATION = Relation(
    left=fp16_activations(),
    right=packed_weight(unsigned_nibble),
    scales=(_by_group(SCALES, ("stride_sg", "stride_sn"), 1),),
    inputs=inputs,
    first=("groups_of_32", "all_tails"),
    subtracted=(_by_group(ZEROS, ("stride_zg", "stride_zn"), 8, zero_points),),
    weight=weight,
    weight_words=weight_words,
)
