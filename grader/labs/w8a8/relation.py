"""W8A8's relation: round(x / s) clamped to int8 meets the stored int8 weight; two scales after the sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from grader.labs.expected import (
    Array,
    Held,
    Relation,
    Scale,
    Used,
    exact,
    fp16_activations,
    of_column,
    of_row,
    refilled,
    stored_weight,
)
from grader.labs.inputs import normal
from grader.model import Problem

INPUT_SCALE, WEIGHT_SCALE = "input_scale_ptr", "weight_scale_ptr"
TIE_WIDTH = 4 * 127 * 2.0**-24
"""So near a tie, relative to x / s, fp32 may round a quotient to the other side."""


def quantised(problem: Problem, row: Array, k: Array, used: Used) -> Held:
    """round(x / s) in -128..127; either neighbour where x / s is a tie, or as near to one as fp32 rounds."""
    ratio = exact(problem, "x_ptr").astype(np.float64)[row, k] / used[INPUT_SCALE]
    to_tie = np.abs(ratio - np.floor(ratio) - 0.5)
    room = np.where(to_tie <= TIE_WIDTH * (1 + np.abs(ratio)), 1.0, 0.0)
    return Held(np.clip(np.round(ratio), -128, 127), room, before=ratio)


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Distinct scales, ratios of all fractions and signs, rows that saturate at both ends, weights of all values."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    peak = x.float().abs().amax(dim=1).clamp(min=1e-3)
    tight = torch.where(torch.arange(M) % 3 == 2, 0.55, 1.0)
    input_scale = peak / 127 * tight * (1 + 0.5 * torch.rand(M, generator=generator) * (tight == 1))
    weight = torch.randint(-127, 128, (N, K), generator=generator).to(torch.int8)
    weight_scale = (1 + torch.rand(N, generator=generator)) / 300
    scales = {INPUT_SCALE: input_scale, WEIGHT_SCALE: weight_scale}
    return refilled(problem, {"x_ptr": x, "qweight_ptr": weight.t(), **scales})


RELATION = Relation(
    left=replace(fp16_activations(), held=quantised, needs=INPUT_SCALE),
    right=stored_weight("qweight_ptr"),
    scales=(Scale(INPUT_SCALE, of_row), Scale(WEIGHT_SCALE, of_column)),
    inputs=inputs,
)
