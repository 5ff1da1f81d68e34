"""DDS probed: whole numbers in the blocks that are there; the pattern stays."""

from __future__ import annotations

import torch

from grader.labs.dds.lab import dense
from grader.labs.probe import Probe
from grader.model import Problem


def weight(problem: Problem, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Magnitudes of 20 to 400 of both signs, which fp16 holds."""
    shape = tuple(problem.tensors["values_ptr"].shape)
    magnitude = torch.randint(20, 401, shape, generator=generator)
    sign = 2 * torch.randint(0, 2, shape, generator=generator) - 1
    return {"values_ptr": (magnitude * sign).to(torch.float16)}


PROBE = Probe(weight, dense=lambda problem: dense(problem).double())
