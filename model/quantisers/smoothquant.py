"""SmoothQuant: what makes X hard to quantise is moved into W, which is easy to quantise.

    s[k] = max|X[:, k]|^a / max|W[:, k]|^(1 - a);    Y = (X / s) (W s)^T

The product is the same; a is 0.5 unless outliers are very strong. Dividing X costs nothing, because the norm before the layer
has a gain for each feature that takes 1 / s. Source: Xiao et al. 2023, "SmoothQuant: Accurate and Efficient Post-Training
Quantization for Large Language Models", arXiv:2211.10438, equations 3 and 4.
"""

from __future__ import annotations

import torch
from torch import nn

SMALLEST = 1e-5


def smoothing(x: torch.Tensor, weight: torch.Tensor, strength: float = 0.5) -> torch.Tensor:
    """s, fp32 [K], for calibration inputs x [M, K] and weight [N, K]. Raises ValueError for a strength outside 0 to 1."""
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"smoothing: found strength={strength}, expected 0 to 1; take 0.5")
    from_x = x.float().abs().amax(dim=0).clamp(min=SMALLEST) ** strength
    from_w = weight.detach().float().abs().amax(dim=0).clamp(min=SMALLEST) ** (1.0 - strength)
    return (from_x / from_w).clamp(min=SMALLEST)


@torch.no_grad()
def migrate(norm: nn.RMSNorm, layer: nn.Linear, s: torch.Tensor) -> None:
    """Divides the norm's gains by s [K] and multiplies the columns of the weight, in place: the function stays the same.

    The norm must be read by this layer alone.
    """
    norm.weight.div_(s.to(norm.weight))
    layer.weight.mul_(s.to(layer.weight))
