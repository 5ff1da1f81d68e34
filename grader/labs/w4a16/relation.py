"""W4A16's relation: X as it is meets the signed nibble of a word; one scale per channel."""

from __future__ import annotations

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
    of_column,
    packed_weight,
    refilled,
)
from grader.labs.inputs import normal, pack_int4
from grader.model import Problem


def signed_nibble(problem: Problem, n: Array, k: Array, used: Used) -> Held:
    """-8 to 7: the two's-complement nibble of element k."""
    u = nibble(problem, n, k)
    return Held(np.where(u > 7, u - 16, u).astype(np.float64), bits=u)


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, every nibble in every position, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu"))
    x[2::3] *= 1024  # sums beyond 65504, which the scale brings back
    q = torch.randint(-8, 8, (K, N), generator=generator)
    scales = (0.02 + 0.05 * torch.rand(N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x.to(torch.float16), "qweight_ptr": pack_int4(q), "scales_ptr": scales})


RELATION = Relation(
    left=fp16_activations(),
    right=packed_weight(signed_nibble),
    scales=(Scale("scales_ptr", of_column),),
    inputs=inputs,
)
