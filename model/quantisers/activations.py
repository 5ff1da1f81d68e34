"""A Linear layer that rounds what it is given, token by token, as the layers with int8 products do."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from model.quantisers.rounding import Format, rounded

TOKEN_INT8 = Format(8)
"""Symmetric int8 with one scale a token: what W8A8_MM does with X."""


class RoundedInputLinear(nn.Module):
    """Y = Q(X) W^T with a format for X; the scales of X are those of each call (dynamic quantisation)."""

    def __init__(self, weight: torch.Tensor, format: Format = TOKEN_INT8) -> None:
        """weight: floating [N, K], already rounded to what it is stored in."""
        super().__init__()
        self.format = format
        self.register_buffer("weight", weight.detach().clone())
        self.weight: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., K] -> [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        return F.linear(rounded(rows, self.format).view(x.shape), self.weight)
