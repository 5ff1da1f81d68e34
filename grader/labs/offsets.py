"""How many times Y is rounded as slices are added to it: seen from a launch whose Y does not begin at zero.

A launch is made twice, on the same inputs: onto zeros, and onto a start 1.5 * 2^10 q from zero, where the numbers of fp16 lie q
apart. There each addition v is rounded to a multiple of q, by an error that is spread evenly over -q/2 to q/2 when v is as
large as q, and is v itself when v is small: mean squares q^2 / 12 and v^2. So of n additions that carry a share, Y - start is off by
n q^2 / 12 in the mean square from what stands in Y otherwise; crumbs leave no trace, nor do additions that cancel, since both
of a pair are rounded alike. q is the largest power of two that is no larger than half a fair share of Y, |Y| / sqrt(slices) / 2.

The rounding of one sum inside a kernel does not show here, however often it is made. A kernel is told the two launches apart by
nothing but what stands in Y.
"""

from __future__ import annotations

import math

import torch

STEPS = 1.5 * 2**10
"""The start in multiples of q; from there to the ends of the range in which fp16 has this distance it is 512 q either way."""
LARGEST, SMALLEST = 2.0**5, 2.0**-24
"""The largest and the smallest distance of two numbers of fp16."""
FARTHEST = 6.0
"""In multiples of q, and what is farther counts as that: sixteen roundings add up to more in one element of ten million, unless partial
sums are so large, and cancel, that they leave the range of q."""
ADDED = 512.0
"""In multiples of q: where an element is farther off than that, it was stored, and not added to."""
MOSTLY = 0.9
"""Share of the elements that must have been added to."""
FEWEST = 48
"""Elements from which a mean square is told."""
TWO = 1.4
"""What is less is one addition: among the cases of all labs one sum comes to 1.2 at most, two slices to 1.6 at least."""
SLACK = 1.4
"""Slices of unlike size seem to be fewer than they are: sixteen come to 12.5 at least."""
ROWS = 256
"""Rows of a large Y that are enough."""


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
    """How often Y is rounded, from what the first launch left and the second; None where too few elements tell."""
    q, begun = fair_shares(y, slices), start(y, slices).double()
    told = (q > 0) & (begun != 0)
    if int(told.sum()) < FEWEST:
        return None
    off = ((again.double() - begun - y.double())[told] / q[told]).nan_to_num(math.inf, math.inf, math.inf).abs()
    if float((off <= ADDED).double().mean()) < MOSTLY:
        return 1.0
    return 12 * float(off[off <= ADDED].clamp(max=FARTHEST).square().mean())


def counted(found: float, slices: int) -> int:
    """The slices that count, of so many, when `additions` found so much."""
    return 1 if found < TWO else min(slices, round(SLACK * found))
