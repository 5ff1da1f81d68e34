"""Whether Y fits its inputs, without a matrix product: Y R against A (W^T R) for random signs R drawn after the launch.

Two tests, both from the same products. E = Y - A W^T is the error, e_m its row m, r a column of R, B_m the norm that
the lab allows row m, as `row_bound` puts it together.

* Each row: |e_m r| <= 8 B_m. R is independent of E, so Hoeffding's inequality for sums of random signs gives a right
  row a chance below 2 exp(-8^2 / 2) = 3e-14 to fail. A row that is wrong by the norm d passes with one column when
  |e_m r| happens to be small, about 0.8 * 8 B_m / d of the time, and with all of COLUMNS columns by that to the power
  of COLUMNS.
* All of them: the mean of (e_m r)^2 / B_m^2 over rows, columns and replays is an unbiased estimate of the mean of
  |e_m|^2 / B_m^2 (Hutchinson's estimator). Rounding errors lie evenly between -B and B, so that this mean is at most a
  third. With d independent columns the estimate exceeds (1 + 2 sqrt(x / d) + 2 x / d) / 3 with a chance below exp(-x)
  (Laurent and Massart, Annals of Statistics 28, lemma 1; signs have the smaller moments). This one sees errors that
  are everywhere and small, such as an accumulator in fp16 that K = 4096 products go through.

B_m is the row norm of the lab's elementwise bound (labs/tolerance.py) with the root of the number of fp32 additions and of
fp16 roundings in place of the number, as its Frobenius bound has it:

    B_m = u16 (1 + root) |y_m| + u16 root G_m + 2 K u32 G_m + roundings sqrt(N) 2^-25 + permitted_m

with root = sqrt(roundings - 1), G_m the lab's `gain`, and |y_m| taken from the launch itself: a row blown up by the
norm d loosens its own bound by u16 d, while its error is d. 2 sqrt(K) u32 ||(|A||W|)_m|| <= 2 K u32 G_m by Cauchy and
Schwarz.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from grader.labs.projection import Projected, half_product, row_norms
from grader.labs.tolerance import FP16_UNDERFLOW, U_FP16, U_FP32

ACCUMULATION = 2.0
"""Tensor cores truncate aligned products instead of rounding each addition; twice K u32 covers that."""

COLUMNS = 4
DEVIATIONS = 8.0
EVENLY = 1 / 3
"""Mean square of an error that lies evenly between -1 and 1."""

IMPROBABLE = 25.0
"""x of the second test: exp(-25) is 1e-11."""


@dataclass(frozen=True)
class Fit:
    """How well some launches fit. worst: float [launches], the largest |e_m r| / (8 B_m), NaN where Y is not finite.

    squares: float [launches], the sum of (e_m r)^2 / B_m^2 over rows and columns.
    """

    worst: torch.Tensor
    squares: torch.Tensor


def random_signs(N: int, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    """R, float32 [N, COLUMNS] of +1 and -1."""
    return 2.0 * torch.randint(2, (N, COLUMNS), generator=generator, device=device) - 1.0


def row_bound(y: torch.Tensor, projected: Projected, K: int, roundings: torch.Tensor) -> torch.Tensor:
    """B_m, float [launches, M]. y: fp16 [launches, M, N]; roundings: fp16 additions an element goes through, float [1]."""
    root = (roundings - 1).sqrt()
    size, gain = row_norms(y), projected.gain
    rounding = U_FP16 * ((1 + root) * size + root * gain)
    underflow = roundings * math.sqrt(y.shape[2]) * FP16_UNDERFLOW
    return rounding + ACCUMULATION * K * U_FP32 * gain + underflow + projected.permitted


def fit(y: torch.Tensor, projected: Projected, signs: torch.Tensor, K: int, roundings: torch.Tensor) -> Fit:
    """Compares outputs with the lab's products. y: fp16 [launches, M, N]."""
    error = half_product(y, signs.expand(y.shape[0], -1, -1)) - projected.product
    share = error / row_bound(y, projected, K, roundings)[:, :, None]
    return Fit(share.abs().amax(dim=(1, 2)) / DEVIATIONS, share.square().sum(dim=(1, 2)))


def too_far_together(mean_square: float, replays: int) -> bool:
    """The second test: the mean of (e_m r)^2 / B_m^2 over so many replays, each with COLUMNS columns of its own."""
    independent = COLUMNS * replays
    chance = 1 + 2 * math.sqrt(IMPROBABLE / independent) + 2 * IMPROBABLE / independent
    return not mean_square <= EVENLY * chance
