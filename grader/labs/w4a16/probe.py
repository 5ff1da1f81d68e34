"""W4A16 probed: all sixteen nibbles but zero, scales of 1."""

from __future__ import annotations

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.probe import Probe, ScaleProbe
from grader.model import Problem


def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Random nibbles from -8 to 7 without 0."""
    N, K = (problem.scalars[name] for name in ("N", "K"))
    q = torch.randint(-8, 7, (K, N), generator=generator)
    q = torch.where(q >= 0, q + 1, q)
    return {"qweight_ptr": pack_int4(q), "scales_ptr": torch.ones(N)}


PROBE = Probe(
    weight,
    dense=lambda problem: unpack_int4(problem.tensors["qweight_ptr"]).t().double(),
    scales=(ScaleProbe("scales_ptr", "n", "scale"),),
    few_values=True,
)
