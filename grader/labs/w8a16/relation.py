"""W8A16's relation: X as it is meets the stored int8 weight; one scale per channel."""

from __future__ import annotations

import torch

from grader.labs.expected import Relation, Scale, fp16_activations, of_column, refilled, stored_weight
from grader.labs.inputs import normal
from grader.model import Problem


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, weights of all values with -128 among every dozen, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu"))
    x[2::3] *= 64  # sums beyond 65504, which the scale brings back
    weight = torch.randint(-128, 128, (N, K), generator=generator).to(torch.int8)
    weight[:, ::13] = -128
    scales = (0.002 + 0.005 * torch.rand(N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x.to(torch.float16), "qweight_ptr": weight.t(), "scales_ptr": scales})


RELATION = Relation(
    left=fp16_activations(),
    right=stored_weight("qweight_ptr"),
    scales=(Scale("scales_ptr", of_column),),
    inputs=inputs,
)
