"""AWQ: features that carry much are scaled up before rounding, so that their weights lose less.

    Q(W s) (X / s)^T instead of Q(W) X^T,    s[k] = (mean|X[:, k]|)^a,    a in {0, 1/20, .., 19/20} with the least
    |X W^T - (X / s) Q(W s)^T|^2 on calibration inputs

a = 0 is round to nearest, so on those inputs it is never worse. X / s is folded into the norm before the layer, or, as here,
s back into the weight: the outputs are the same. Source: Lin et al. 2024, "AWQ: Activation-aware Weight Quantization for
LLM Compression and Acceleration", arXiv:2306.00978, equations 4 and 5; its search for a clipped range is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from model.quantisers.gptq import hessian, objective
from model.quantisers.rounding import Format, rounded

CHOICES = 20
SMALLEST = 1e-4


@dataclass(frozen=True)
class Search:
    """What a search found: the strength a, the scales s fp32 [K], and Q(W s) / s, fp32 [N, K]."""

    strength: float
    scales: torch.Tensor
    weight: torch.Tensor


def salience(x: torch.Tensor) -> torch.Tensor:
    """mean|X[:, k]|, fp32 [K], of calibration inputs x [M, K]."""
    return x.float().abs().mean(dim=0)


def scales(strengths: torch.Tensor, strength: float) -> torch.Tensor:
    """s, fp32 [K]: salience to the power of `strength`, with smallest and largest as far from 1."""
    s = strengths.clamp(min=SMALLEST) ** strength
    return s / (s.max() * s.min()).sqrt()


def awq(weight: torch.Tensor, x: torch.Tensor, format: Format) -> Search:
    """Searches the strength for weight [N, K] and its inputs x [M, K]. Raises ValueError for a group that does not divide K."""
    weight, h, carried = weight.detach().float(), hessian(x), salience(x)
    best: Search | None = None
    least = float("inf")
    for choice in range(CHOICES):
        s = scales(carried, choice / CHOICES)
        candidate = rounded(weight * s, format) / s
        error = objective(weight, candidate, h)
        if best is None or error < least:
            best, least = Search(choice / CHOICES, s, candidate), error
    assert best is not None
    return best
