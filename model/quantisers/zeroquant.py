"""ZeroQuant: int8 with a scale for each group of weights and each token.

    W ~ q s, one s for `group` consecutive elements of a row;    X ~ q t, one t a row, taken in each call

Finer than one scale a channel, so one large weight spoils its group only. Source: Yao et al. 2022, "ZeroQuant: Efficient and
Affordable Post-Training Quantization for Large-Scale Transformers", arXiv:2206.01861, section 4.1. The paper's layer-by-layer
distillation (section 4.2) is not here.
"""

from __future__ import annotations

from torch import nn

from model.quantisers.activations import TOKEN_INT8, RoundedInputLinear
from model.quantisers.rounding import Format, rounded

GROUP = 64


def zeroquant(layer: nn.Linear, bits: int = 8, group: int = GROUP) -> RoundedInputLinear:
    """The layer with its weight in groups and its input token by token. Raises ValueError when `group` does not divide K."""
    return RoundedInputLinear(rounded(layer.weight.detach(), Format(bits, group=group)), TOKEN_INT8)
