"""How far from the exact product a right kernel may be: the bounds, elementwise and together, that every lab builds on.

Y = A W^T is summed in fp32 or int32 and rounded to fp16 once; with split-K the slices are rounded to fp16 and added
in fp16, in any order. For r slices, with u16 and u32 the unit roundoffs of fp16 and fp32,

    |y - y*|         <=  u16 (|y*| + p)  +  rho(K) u32 (|A| |W|^T)  +  c(r) u16 (|y*| + p + s)  +  p
    (|E|_F / |Y|_F)^2 <=  u16^2 (1 + (r - 1) / 8 (1 + |S|_F^2 / |Y|_F^2))  +  K u32^2 (||A| |W|^T|_F / |Y|_F)^2
                          +  |P|_F^2 / |Y|_F^2  +  8 u16 |P o (|Y| + P)|_F / |Y|_F^2
    rho(K) = min(K, 8 sqrt(K) + K / 8),   s = sqrt((A o A) (W o W)^T),   c(r) = max(6, 3 sqrt(r - 1)) for r > 1, else 0

p: what the lab permits on top. It moves what is rounded, so its own rounding counts; and together it need not be independent of
the roundings: the sum of p e over the elements, e within u16 (|y*| + p) and of any sign, exceeds 4 times the root of the sum of its
squares with a probability below 2 exp(-4^2 / 2), and for roundings, which spread evenly, below 1e-10 (Hoeffding 1963, theorem 2).

rho: K is the worst case of any order of additions that round to nearest (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1 and problem 4.3); 8 sqrt(K) is exceeded with probability below 2 K exp(-8^2 / 2),
2 exp(-8^2 / 2) a rounding (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019,
theorem 2.4); K / 8 is for tensor cores, which truncate (Fasi et al., Numerical behavior of NVIDIA tensor cores,
PeerJ Comput. Sci. 7, 2021). docs/tolerance.md has what was measured.

Roundings of r - 1 fp16 additions are independent and of zero mean, so they grow with the root of their number. Each
is at most u16 times a partial sum; in random orders a partial sum strays from its share of y* by s or so. Few slices are
governed by how far a single one strays: two that cancel may each be 3 s large once in a million elements, hence 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from grader.model import Reference

U_FP16 = 2.0**-11
U_FP32 = 2.0**-24
FP16_UNDERFLOW = 2.0**-25
CONFIDENCE = 8.0
"""How many times the root of their number roundings may add up to."""
TRUNCATED = 8
"""Products that a tensor core adds before it truncates."""
SLICE_CONFIDENCE = 3.0
FEW_SLICES = 6.0
"""What SLICE_CONFIDENCE times the root comes to at least."""
BOTH_CONFIDENCE = 4.0
"""How many times its root mean square the sum of roundings times what is permitted may be."""
SLICE_VARIANCE = 1 / 8
"""Mean square of what one fp16 addition of a slice adds, over u16^2 (|y|^2 + s^2).

A rounding to nearest has a mean square of 0.18 u16^2 |z|^2 where the mantissas of z are spread evenly; z, a partial sum
in random order, has a mean square of at most (|y|^2 + s^2) / 2 over the additions.
"""


def additions(K: int) -> float:
    """rho(K): by how many u32 of |A| |W|^T a sum of K terms in fp32 may be off."""
    return min(float(K), CONFIDENCE * math.sqrt(K) + K / TRUNCATED)


def matmul_reference(
    a: torch.Tensor, w: torch.Tensor, *, roundings: int = 1, permitted: torch.Tensor | None = None
) -> Reference:
    """Reference for Y = A W^T with fp16 output and fp32 accumulation.

    a: float64 [M, K]; w: float64 [N, K], both exactly what the kernel was given, dequantised.
    roundings: slices of K that are added to an output element in fp16, 1 without split-K.
    permitted: float64 [M, N], what the lab allows on top.
    """
    y = a @ w.t()
    magnitude = a.abs() @ w.abs().t()
    off = torch.zeros_like(y) if permitted is None else permitted
    rounded = y.abs() + off
    bound = U_FP16 * rounded + additions(a.shape[1]) * U_FP32 * magnitude + roundings * FP16_UNDERFLOW + off
    norm = float(torch.linalg.norm(y))
    if norm == 0:
        return Reference(y=y, bound=bound, frobenius=float(torch.linalg.norm(bound)))
    square = U_FP16**2
    if roundings > 1:
        spread = (a.square() @ w.square().t()).sqrt()
        widened = max(FEW_SLICES, SLICE_CONFIDENCE * math.sqrt(roundings - 1))
        bound = bound + widened * U_FP16 * (rounded + spread)
        share = float(torch.linalg.norm(spread)) / norm
        square += (roundings - 1) * SLICE_VARIANCE * U_FP16**2 * (1 + share**2)
    square += a.shape[1] * (U_FP32 * float(torch.linalg.norm(magnitude)) / norm) ** 2
    square += (roundings * FP16_UNDERFLOW / norm) ** 2 * y.numel()
    square += (float(torch.linalg.norm(off)) / norm) ** 2
    square += 2 * BOTH_CONFIDENCE * U_FP16 * float(torch.linalg.norm(off * rounded)) / norm**2
    return Reference(y=y, bound=bound, frobenius=math.sqrt(square))


def weight_only_reference(
    a: torch.Tensor, w: torch.Tensor, *, roundings: int, variants: Sequence[torch.Tensor] = ()
) -> Reference:
    """`matmul_reference` for a kernel that makes its weight W, exact in fp32, of integers and scales before the product.

    Permitted is that it rounds W to fp16, cuts it to the eleven bits of TF32, or makes one of these variants of it, float64 [N, K]: by how
    much that moves an element of Y is known exactly, so no more than that is allowed.
    """
    cut = (w.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()
    moved = [(a @ (made - w).t()).abs() for made in (w.to(torch.float16).double(), cut, *variants)]
    permitted = (1 + 2 * U_FP16) * torch.stack(moved).amax(dim=0)
    return matmul_reference(a, w, roundings=roundings, permitted=permitted)
