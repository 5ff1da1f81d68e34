"""W8A8 probed: int8 weights far from zero, scales of 1, so that x is its own quantised value."""

from __future__ import annotations

import torch

from grader.labs.probe import Probe, ScaleProbe
from grader.model import Problem


def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Magnitudes of 20 to 127 of both signs."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    magnitude = torch.randint(20, 128, (K, N), generator=generator)
    sign = 2 * torch.randint(0, 2, (K, N), generator=generator) - 1
    return {
        "qweight_ptr": (magnitude * sign).to(torch.int8), "input_scale_ptr": torch.ones(M), "weight_scale_ptr": torch.ones(N),
    }  # fmt: skip


PROBE = Probe(
    weight,
    dense=lambda problem: problem.tensors["qweight_ptr"].t().double(),
    scales=(
        ScaleProbe("input_scale_ptr", "m", "input scale", divides=True),
        ScaleProbe("weight_scale_ptr", "n", "weight scale"),
    ),
)
