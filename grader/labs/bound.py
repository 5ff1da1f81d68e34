"""How far from the exact product a right kernel may be: the elementwise bound that every lab builds on.

Source of the formula: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.5, with the
unit roundoffs of fp16 (output) and fp32 (accumulator).
"""

from __future__ import annotations

import torch

from grader.model import Reference

U_FP16 = 2.0**-11
U_FP32 = 2.0**-24
FP16_UNDERFLOW = 2.0**-25
ACCUMULATION = 2.0
"""Tensor cores truncate aligned products instead of rounding each addition; twice K u_fp32 covers that."""


def matmul_reference(
    a: torch.Tensor, w: torch.Tensor, *, roundings: int = 1, permitted: torch.Tensor | None = None
) -> Reference:
    """Reference for Y = A W^T with fp16 output and fp32 accumulation.

    a: float64 [M, K]; w: float64 [N, K], both exactly what the kernel was given, dequantised.
    roundings: fp16 additions that an output element passes through (split-K with atomics in fp16).
    permitted: float64 [M, N], what the lab allows on top.
    """
    y = a @ w.t()
    magnitude = a.abs() @ w.abs().t()
    bound = U_FP16 * y.abs() + ACCUMULATION * a.shape[1] * U_FP32 * magnitude + roundings * FP16_UNDERFLOW
    if roundings > 1:
        spread = (a.square() @ w.square().t()).sqrt()
        bound = bound + (roundings - 1) * U_FP16 * (y.abs() + 4 * spread)
    norm = float(torch.linalg.norm(y))
    # Together, rounding errors of an accumulator grow with the square root of K, not with K.
    accumulated = ACCUMULATION * a.shape[1] ** 0.5 * U_FP32 * float(torch.linalg.norm(magnitude))
    underflow = roundings * FP16_UNDERFLOW * y.numel() ** 0.5
    frobenius = U_FP16 * roundings + ((accumulated + underflow) / norm if norm > 0 else 0.0)
    if permitted is not None:
        bound = bound + permitted
        frobenius += float(torch.linalg.norm(permitted)) / norm if norm > 0 else 0.0
    return Reference(y=y, bound=bound, frobenius=frobenius)
