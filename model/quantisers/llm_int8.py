"""LLM.int8(): outlier features of X stay in 16 bits, all others are multiplied in int8.

    O = {k : some |x[m, k]| >= a};    Y = X[:, O] W[:, O]^T + Q(X[:, not O]) Q(W[:, not O])^T

Q is symmetric int8 with one scale a token and one a channel ("vector-wise"); a is 6 in the paper. Which features are outliers is
known only when X is, so the weight is kept as it was trained; bits counted for it leave out the 16 of outlier columns. Source: Dettmers
et al. 2022, "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", arXiv:2208.07339.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from model.quantisers.rounding import Format, rounded

THRESHOLD = 6.0
INT8 = Format(8)


def outlier_features(x: torch.Tensor, threshold: float = THRESHOLD) -> torch.Tensor:
    """Which features of X are outliers: x [M, K] -> bool [K]."""
    return (x.abs() >= threshold).any(dim=0)


def llm_int8(x: torch.Tensor, weight: torch.Tensor, threshold: float = THRESHOLD) -> torch.Tensor:
    """The decomposed product. x [M, K], weight [N, K] -> [M, N]."""
    outliers = outlier_features(x, threshold)
    y = F.linear(x[:, outliers], weight[:, outliers])
    return y + F.linear(rounded(x[:, ~outliers], INT8), rounded(weight[:, ~outliers], INT8)) if (~outliers).any() else y


class LLMInt8Linear(nn.Module):
    """Y as `llm_int8` computes it, outliers found anew in each call; `outliers` counts those of the last one."""

    def __init__(self, weight: torch.Tensor, threshold: float = THRESHOLD) -> None:
        """weight: floating [N, K], as it was trained."""
        super().__init__()
        self.threshold, self.outliers = threshold, 0
        self.register_buffer("weight", weight.detach().clone())
        self.weight: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., K] -> [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        self.outliers = int(outlier_features(rows, self.threshold).sum())
        return llm_int8(rows, self.weight, self.threshold).view(*x.shape[:-1], -1)
