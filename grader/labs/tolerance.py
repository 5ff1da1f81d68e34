"""The tolerance: how far from the exact product a right kernel may be, per element and in the Frobenius norm. Every lab builds on it.

Y = A W^T is summed in fp32 or int32 and rounded to fp16 once; with split-K the slices are rounded to fp16 and added
in fp16, in any order. For r slices, with u16 and u32 the unit roundoffs of fp16 and fp32,

    |y - y*|         <=  u16 (|y*| + p)  +  rho(K) u32 (|A| |W|^T)  +  c(r) u16 (|y*| + p + s)  +  p
    (|E|_F / |Y|_F)^2 <=  u16^2 (1 + (r - 1) / 8 (1 + |S|_F^2 / |Y|_F^2))  +  K u32^2 (||A| |W|^T|_F / |Y|_F)^2
                          +  |P|_F^2 / |Y|_F^2  +  8 u16 |P o (|Y| + P)|_F / |Y|_F^2
    rho(K) = min(K, 8 sqrt(K) + K / 8),   s = sqrt((A o A) (W o W)^T),   c(r) = max(6, 3 sqrt(r - 1)) for r > 1, else 0

K: the columns of A that are not zero. p: deviations that the lab permits in addition (`permitted`). The permitted value is rounded too,
hence |y*| + p; and the permitted deviation need not be independent of the rounding error e. The sum of p e over all elements, with |e| <=
u16 (|y*| + p) and any sign, exceeds 4 times its root mean square with a probability below 2 exp(-4^2 / 2), and for evenly spread rounding
errors below 1e-10 (Hoeffding 1963, theorem 2).

rho: K is the worst case for any order of additions that round to nearest (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1 and problem 4.3); 8 sqrt(K) is exceeded with probability below 2 K exp(-8^2 / 2),
2 exp(-8^2 / 2) per rounding (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019,
theorem 2.4); K / 8 accounts for tensor cores, which truncate (Fasi et al., Numerical behavior of NVIDIA tensor cores,
PeerJ Comput. Sci. 7, 2021). docs/tolerance.md has the measurements.

c: the rounding errors of r - 1 fp16 additions are independent with zero mean, so they grow with the square root of r - 1. Each is at
most u16 times a partial sum, and in a random order a partial sum deviates from its share of y* by about s. With few slices the largest
single deviation decides: two slices that cancel may each reach 3 s in one of a million elements, hence 6.
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
"""Rounding errors may add up to this many times the square root of their number."""
TRUNCATED = 8
"""A tensor core truncates after adding this many products."""
SLICE_CONFIDENCE = 3.0
FEW_SLICES = 6.0
"""The least value of c(r), which is SLICE_CONFIDENCE sqrt(r - 1) otherwise."""
BOTH_CONFIDENCE = 4.0
"""The sum of rounding errors times permitted deviations may be this many times its root mean square."""
SLICE_VARIANCE = 1 / 8
"""Mean squared error of one fp16 addition of a slice, divided by u16^2 (|y|^2 + s^2).

Rounding z to nearest has a mean squared error of 0.18 u16^2 |z|^2 if the mantissas of z are evenly spread; z, a partial sum in a random
order, has a mean square of at most (|y|^2 + s^2) / 2 over the additions.
"""


def additions(K: int) -> float:
    """rho(K): the error of an fp32 sum of K terms, in units of u32 |A| |W|^T."""
    return min(float(K), CONFIDENCE * math.sqrt(K) + K / TRUNCATED)


def matmul_reference(
    a: torch.Tensor, w: torch.Tensor, *, roundings: int = 1, permitted: torch.Tensor | None = None
) -> Reference:
    """Reference for Y = A W^T with fp16 output and fp32 accumulation.

    a: float64 [M, K]; w: float64 [N, K], both exactly what the kernel was given, dequantised.
    roundings: r, the slices of K that are added to an output element in fp16; 1 without split-K.
    permitted: p, float64 [M, N], the deviation that the lab allows in addition.
    """
    whole = a, w
    a, w = _used(a, w)
    y = a @ w.t()
    magnitude = a.abs() @ w.abs().t()
    p = torch.zeros_like(y) if permitted is None else permitted
    rounded = y.abs() + p
    summed = a.shape[1]
    bound = U_FP16 * rounded + additions(summed) * U_FP32 * magnitude + roundings * FP16_UNDERFLOW + p
    norm = float(torch.linalg.norm(y))
    if norm == 0:
        return Reference(y, bound, float(torch.linalg.norm(bound)), *whole)
    square = U_FP16**2
    if roundings > 1:
        spread = (a.square() @ w.square().t()).sqrt()
        widened = max(FEW_SLICES, SLICE_CONFIDENCE * math.sqrt(roundings - 1))
        bound = bound + widened * U_FP16 * (rounded + spread)
        share = float(torch.linalg.norm(spread)) / norm
        square += (roundings - 1) * SLICE_VARIANCE * U_FP16**2 * (1 + share**2)
    square += summed * (U_FP32 * float(torch.linalg.norm(magnitude)) / norm) ** 2
    square += (roundings * FP16_UNDERFLOW / norm) ** 2 * y.numel()
    square += (float(torch.linalg.norm(p)) / norm) ** 2
    square += 2 * BOTH_CONFIDENCE * U_FP16 * float(torch.linalg.norm(p * rounded)) / norm**2
    return Reference(y, bound, math.sqrt(square), *whole)


def _used(a: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """All without the k for which A is zero in every row, as where a slice of K is compared."""
    used = (a != 0).any(dim=0)
    return (a, *others) if bool(used.all()) else tuple(one[:, used] for one in (a, *others))


def weight_only_reference(
    a: torch.Tensor, w: torch.Tensor, *, roundings: int, variants: Sequence[torch.Tensor] = ()
) -> Reference:
    """`matmul_reference` for a kernel that dequantises W, exact in fp32, before the product.

    It may round W to fp16, truncate it to the eleven bits of TF32, or use one of `variants` of it, float64 [N, K]. How far each of these
    moves an element of Y is computed exactly, and no more than that is permitted.
    """
    left, right, *others = _used(a, w, *variants)
    cut = (right.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()
    made = (right.to(torch.float16).double(), cut, *others)
    moved = [(left @ (one - right).t()).abs() for one in made]
    permitted = (1 + 2 * U_FP16) * torch.stack(moved).amax(dim=0)
    return matmul_reference(a, w, roundings=roundings, permitted=permitted)
