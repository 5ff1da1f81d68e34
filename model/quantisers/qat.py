"""Quantisation-aware training: the model is trained with rounded weights, and the rounding is passed over by the gradient.

    forward: Y = X Q(W)^T;    backward: dL/dW = dL/dQ(W), as if Q were the identity ("straight-through")

The scales follow the weights in each step. Source: Bengio et al. 2013, "Estimating or Propagating Gradients Through
Stochastic Neurons for Conditional Computation", arXiv:1308.3432; for networks, Jacob et al. 2018, arXiv:1712.05877.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from model.layers import Choose, every
from model.quantisers.rounding import Format, rounded
from model.training import Course, Listener, Recipe, continue_training
from model.transformer import Transformer, linear_layers


class StraightThrough(nn.Module):
    """A weight as its format has it; the gradient passes unchanged."""

    def __init__(self, format: Format) -> None:
        super().__init__()
        self.format = format

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """weight [N, K] -> rounded, the same shape."""
        return rounded(weight.detach(), self.format) + (weight - weight.detach())


def train_quantised(
    model: Transformer, text: bytes, recipe: Recipe, format: Format, choose: Choose = every, listen: Listener = lambda text: None
) -> Course:
    """Trains on in place with rounded weights in the chosen layers, and leaves these weights on their grids.

    Raises ValueError for a text that is too short or a group that does not divide a row.
    """
    chosen = {name: layer for name, layer in linear_layers(model).items() if choose(name)}
    for layer in chosen.values():
        parametrize.register_parametrization(layer, "weight", StraightThrough(format))
    try:
        return continue_training(model, text, recipe, listen)
    finally:
        for layer in chosen.values():
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
