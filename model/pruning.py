"""Magnitude pruning of 32 x 32 blocks, the pattern of SparseLinear, with or without training on.

    keep a block when its Frobenius norm is among the largest (1 - sparsity) of its layer

Source: Han et al. 2015, "Learning both Weights and Connections for Efficient Neural Networks", arXiv:1506.02626, for single
weights; for blocks Gray et al. 2017, "GPU Kernels for Block-Sparse Weights".
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from model.layers import Choose, every
from model.training import Course, Listener, Recipe, continue_training
from model.transformer import Transformer, linear_layers

BLOCK = 32


class Masked(nn.Module):
    """A weight with some of its elements held at zero, while it is trained too."""

    def __init__(self, mask: torch.Tensor) -> None:
        """mask: bool [N, K], true where an element stays."""
        super().__init__()
        self.register_buffer("mask", mask)
        self.mask: torch.Tensor

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """weight [N, K] -> the same shape."""
        return weight * self.mask


def block_mask(weight: torch.Tensor, sparsity: float) -> torch.Tensor:
    """Which elements stay, bool [N, K], when a share `sparsity` of the blocks goes, those with the smallest norms.

    Raises ValueError for a sparsity outside 0 to 1 or a shape that 32 does not divide.
    """
    rows, columns = weight.shape
    if not 0.0 <= sparsity <= 1.0 or rows % BLOCK or columns % BLOCK:
        raise ValueError(f"block_mask: found sparsity={sparsity} and a weight {rows} x {columns}, expected 0 to 1 and multiples of 32")
    norms = weight.detach().float().view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK).square().sum(dim=(1, 3))
    mask = torch.zeros(norms.numel(), dtype=torch.bool, device=weight.device)
    mask[norms.flatten().topk(norms.numel() - round(sparsity * norms.numel())).indices] = True
    return mask.view(norms.shape).repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)


def prune(
    model: Transformer, sparsity: float, choose: Choose = every, text: bytes | None = None, recipe: Recipe | None = None,
    listen: Listener = lambda text: None,
) -> Course | None:
    """Prunes the chosen layers in place; with a text and a recipe the model is trained on with the zeros held.

    Raises ValueError for a bad sparsity, and for a text that is too short.
    """
    chosen = {name: layer for name, layer in linear_layers(model).items() if choose(name)}
    for layer in chosen.values():
        parametrize.register_parametrization(layer, "weight", Masked(block_mask(layer.weight, sparsity)))
    try:
        return continue_training(model, text, recipe, listen) if text is not None and recipe is not None else None
    finally:
        for layer in chosen.values():
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
