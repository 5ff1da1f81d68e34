"""What a lab says of Y without computing Y: its products with random signs, and how large its errors may be.

Freivalds' check: a product Y = A W^T is right, with near certainty, when Y R = A (W^T R) for random columns R that were
drawn after Y was written. That costs a pass over each matrix instead of a matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

Stack = Mapping[str, "torch.Tensor"]
"""The inputs of several launches, one tensor per pointer parameter: [launches, *shape of the parameter]."""


@dataclass(frozen=True)
class Projected:
    """The products of several launches, and what bounds the error of each row.

    product: float [launches, M, P], A (W^T R), far more precise than fp16.
    gain: float [launches, M], at least ||a_m|| ||W||_F / sqrt(K): what the norm of row m of Y is like when the signs of
        its terms are random, and so what errors of single terms or partial sums add up to.
    permitted: float [launches, M], the norm of what the lab allows on top in row m.
    """

    product: torch.Tensor
    gain: torch.Tensor
    permitted: torch.Tensor


def half_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right by tensor cores, to about 20 bits. left: fp16 [B, R, C], taken as it is; right: float [B, C, P].

    fp16 holds 11 bits, so `right` is split into two halves of 11 bits each; products are summed in fp32. On the CPU
    the product is float64.
    """
    if left.device.type == "cpu":
        return torch.bmm(left.double(), right.double())
    largest = right.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-30)
    scaled = right / largest
    high = scaled.to(torch.float16)
    low = ((scaled - high) * 2.0**11).to(torch.float16)
    both: torch.Tensor = torch.bmm(left, torch.cat((high, low), dim=2), out_dtype=torch.float32)
    upper, lower = both.chunk(2, dim=2)
    product: torch.Tensor = (upper + lower * 2.0**-11) * largest
    return product


def row_norms(a: torch.Tensor) -> torch.Tensor:
    """float32 [B, R]: the Euclidean norm of each row of [B, R, C]."""
    norms: torch.Tensor = torch.linalg.vector_norm(a, dim=2, dtype=torch.float32)
    return norms
