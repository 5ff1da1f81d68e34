"""Round to nearest: what every other method is measured against.

    symmetric:         s = max|r| / (2^(b-1) - 1);    q = clamp(round(r / s), -2^(b-1), 2^(b-1) - 1);    r ~ q s
    with zero point:   s = (max r - min r) / (2^b - 1);    z = round(-min r / s);    q = clamp(round(r / s) + z, 0, 2^b - 1);
                       r ~ (q - z) s;    the range is widened so that it holds 0

Largest and smallest are taken over what shares a scale: the tensor, a row (a channel of W, a token of X), or a group of
consecutive elements of a row. Ties go to even. Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", arXiv:1712.05877; the symmetric form is the one of the labs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Share = Literal["tensor", "row"]
FEWEST_BITS, MOST_BITS = 2, 16


@dataclass(frozen=True)
class Format:
    """How numbers are stored. `share`: what has one scale; or `group` elements of a row have one. bits: 2 to 16."""

    bits: int
    share: Share = "row"
    group: int | None = None
    zero_point: bool = False

    def __post_init__(self) -> None:
        if not FEWEST_BITS <= self.bits <= MOST_BITS:
            raise ValueError(f"Format: found bits={self.bits}, expected {FEWEST_BITS} to {MOST_BITS}; 4 and 8 are usual")
        if self.group is not None and (self.group < 1 or self.share != "row"):
            raise ValueError(f"Format: found group={self.group} and share={self.share!r}, expected a positive group within a row")

    @property
    def smallest(self) -> int:
        """The smallest code."""
        return 0 if self.zero_point else -(1 << (self.bits - 1))

    @property
    def largest(self) -> int:
        """The largest code."""
        return self.smallest + (1 << self.bits) - 1

    def stored_bits(self, row: int) -> float:
        """Bits a number in rows of that many elements, with scales in 16 bits and zero points in `bits` of each group."""
        if self.share == "tensor":
            return float(self.bits)
        return self.bits + (16 + (self.bits if self.zero_point else 0)) / (self.group or row)


@dataclass(frozen=True)
class Grid:
    """The numbers that a format can hold: (q - zero) * scale. scale and zero fp32 [..., 1], one for each that share it."""

    scale: torch.Tensor
    zero: torch.Tensor
    format: Format

    def codes(self, r: torch.Tensor) -> torch.Tensor:
        """The code of each number, as whole fp32 numbers; r is shaped so that scale and zero broadcast over it."""
        return (torch.round(r / self.scale) + self.zero).clamp(self.format.smallest, self.format.largest)

    def nearest(self, r: torch.Tensor) -> torch.Tensor:
        """The number of the grid that each number becomes."""
        return (self.codes(r) - self.zero) * self.scale


def grid_of(r: torch.Tensor, format: Format) -> Grid:
    """The grid of numbers that share a scale along the last axis. r floating [..., G]; all zeros have scale 1."""
    r = r.float()
    if format.zero_point:
        low, high = r.amin(dim=-1, keepdim=True).clamp(max=0), r.amax(dim=-1, keepdim=True).clamp(min=0)
        scale = _positive((high - low) / (2**format.bits - 1))
        return Grid(scale, torch.round(-low / scale), format)
    scale = _positive(r.abs().amax(dim=-1, keepdim=True) / format.largest)
    return Grid(scale, torch.zeros_like(scale), format)


def shared(r: torch.Tensor, format: Format) -> torch.Tensor:
    """r [rows, K], viewed so that the last axis holds what shares a scale: [1, rows K], [rows, K] or [rows, K/group, group].

    Raises ValueError when the group does not divide K.
    """
    if format.share == "tensor":
        return r.reshape(1, -1)
    if format.group is None:
        return r
    if r.shape[-1] % format.group:
        raise ValueError(f"found rows of {r.shape[-1]} elements, expected a multiple of group={format.group}; choose another group")
    return r.reshape(*r.shape[:-1], -1, format.group)


def rounded(r: torch.Tensor, format: Format) -> torch.Tensor:
    """Round to nearest, and back to numbers. Floating [rows, K] -> the same shape and dtype. Raises ValueError for a bad group."""
    parts = shared(r.float(), format)
    return grid_of(parts, format).nearest(parts).reshape(r.shape).to(r.dtype)


def _positive(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > 0, scale, torch.ones_like(scale))
