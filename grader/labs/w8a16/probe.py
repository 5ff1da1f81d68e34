"""W8A16 probed: int8 weights far from zero, scales of 1."""

from __future__ import annotations

import torch

from grader.labs.probe import Probe, ScaleProbe
from grader.model import Problem


def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Magnitudes of 20 to 127 of both signs."""
    N, K = (problem.scalars[name] for name in ("N", "K"))
    magnitude = torch.randint(20, 128, (K, N), generator=generator)
    sign = 2 * torch.randint(0, 2, (K, N), generator=generator) - 1
    return {"qweight_ptr": (magnitude * sign).to(torch.int8), "scales_ptr": torch.ones(N)}


PROBE = Probe(
    weight,
    dense=lambda problem: problem.tensors["qweight_ptr"].t().double(),
    scales=(ScaleProbe("scales_ptr", "n", "scale"),),
)
