"""How many times Y is rounded while slices are added to it, found by a second launch in which Y does not start at zero.

A launch is made twice, on the same inputs: onto zeros, and onto a start 1.5 * 2^10 q from zero, where the numbers of fp16 lie q
apart. There each addition v is rounded to a multiple of q, with an error that is uniform over -q/2 to q/2 if v is at least
as large as q, and v itself if v is small: mean squares q^2 / 12 and v^2. So after n additions that each carry a share, the mean squared
difference between Y - start and the first launch's Y is n q^2 / 12. Tiny additions leave no trace, nor do additions that cancel, since
both of a pair are rounded alike. q is the largest power of two that is at most half a fair share of Y, |Y| / sqrt(slices) / 2.

Roundings of a sum inside the kernel do not count here. Nothing but the contents of Y tells the kernel which of the two launches it is.
"""

from __future__ import annotations

import math

import torch

STEPS = 1.5 * 2**10
"""The start in multiples of q: the middle of the range in which fp16 numbers lie q apart, 512 q from either end."""
LARGEST, SMALLEST = 2.0**5, 2.0**-24
"""The largest and the smallest distance between neighbouring fp16 numbers."""
FARTHEST = 6.0
"""In multiples of q; larger differences are clamped to it. Sixteen roundings add up to more in only one element of ten million, unless
large partial sums that cancel leave the range of q."""
ADDED = 512.0
"""In multiples of q: an element that differs by more was stored instead of added to."""
MOSTLY = 0.5
"""Share of the elements that must have been added to: what most of them get is what counts."""
FEWEST = 48
"""Fewer elements than this do not give a mean square."""
TWO = 1.4
"""A smaller result is one addition: over all labs' cases, one sum gives 1.2 at most, two slices 1.6 at least."""
SLACK = 1.4
"""Slices of unequal size give a smaller result than their number: sixteen give 12.5 at least."""
ROWS = 256
"""At most this many rows of Y are used."""


def fair_shares(y: torch.Tensor, slices: int) -> torch.Tensor:
    """float64 [M, N]: q for each element; 0 where there is none, because Y is too large, zero or not finite there."""
    square = y.double().nan_to_num(0.0, 0.0, 0.0).square()
    mean = float(square.mean())
    if mean == 0.0:
        return torch.zeros_like(square)
    size = (square.mean(dim=1, keepdim=True) * square.mean(dim=0, keepdim=True) / mean).sqrt()
    q = torch.exp2(torch.floor(torch.log2(size / math.sqrt(4 * slices))))
    usable = torch.isfinite(y) & (q >= SMALLEST) & (q <= LARGEST) & (y.double().abs() < 256 * q)
    return torch.where(usable, q, 0.0)


def start(y: torch.Tensor, slices: int) -> torch.Tensor:
    """fp16 [M, N] for Y to hold before the second launch, when the first left `y`."""
    return (-torch.sign(y.double()) * STEPS * fair_shares(y, slices)).to(torch.float16)


def additions(y: torch.Tensor, again: torch.Tensor, slices: int) -> float | None:
    """How often Y is rounded, from the results of the first launch and of the second (`again`); None if too few elements tell."""
    q, begun = fair_shares(y, slices), start(y, slices).double()
    usable = (q > 0) & (begun != 0)
    if int(usable.sum()) < FEWEST:
        return None
    off = ((again.double() - begun - y.double())[usable] / q[usable]).nan_to_num(math.inf, math.inf, math.inf).abs()
    if float((off <= ADDED).double().mean()) < MOSTLY:
        return 1.0
    return 12 * float(off[off <= ADDED].clamp(max=FARTHEST).square().mean())


def counted(found: float, slices: int) -> int:
    """How many of these slices count, given the result of `additions`."""
    return 1 if found < TWO else min(slices, round(SLACK * found))
