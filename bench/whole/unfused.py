"""Dynamic int8 quantisation in three steps that PyTorch has: quantise, torch._int_mm into an int32 matrix in memory, rescale."""

from __future__ import annotations

import torch
from torch import nn

STEP = 8
FEWEST_ROWS = 17
"""On a GPU torch._int_mm takes N and K that are multiples of 8, and more than 16 rows."""


class UnfusedLinear(nn.Module):
    """y = x W^T + bias with W in int8, one scale a channel, and x quantised in each call, one scale a token.

    Buffers: qweight int8 [out_features, in_features], weight_scale fp32 [out_features], bias [out_features] or None.
    """

    def __init__(self, linear: nn.Linear) -> None:
        """Quantises a Linear layer. Raises ValueError for sides that are no multiples of 8."""
        super().__init__()
        if linear.in_features % STEP or linear.out_features % STEP:
            raise ValueError(
                f"UnfusedLinear: found a weight {linear.out_features} x {linear.in_features}, expected multiples of {STEP}, which "
                "torch._int_mm needs; pad the layer"
            )
        weight = linear.weight.detach().float()
        scale = row_scales(weight)
        self.register_buffer("qweight", quantised(weight, scale))
        self.register_buffer("weight_scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())
        self.qweight: torch.Tensor
        self.weight_scale: torch.Tensor
        self.bias: torch.Tensor | None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features] in the dtype of x. Raises ValueError for fewer than 17 rows."""
        rows = x.reshape(-1, x.shape[-1])
        if rows.shape[0] < FEWEST_ROWS:
            raise ValueError(f"UnfusedLinear: found {rows.shape[0]} rows, expected {FEWEST_ROWS} or more, which torch._int_mm needs; pad x")
        scale = row_scales(rows)
        product = torch._int_mm(quantised(rows, scale), self.qweight.t())
        y = (product * scale[:, None] * self.weight_scale).to(x.dtype)
        if self.bias is not None:
            y = y + self.bias
        return y.view(*x.shape[:-1], -1)


def row_scales(rows: torch.Tensor) -> torch.Tensor:
    """max|row| / 127, and 1 for a row of zeros: floating [R, K] -> fp32 [R]."""
    scale = rows.abs().amax(dim=1).float() / 127
    return torch.where(scale > 0, scale, torch.ones_like(scale))


def quantised(rows: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rounded to nearest and clamped to int8: floating [R, K], fp32 [R] -> int8 [R, K]."""
    return torch.round(rows.float() / scale[:, None]).clamp(-128, 127).to(torch.int8)
