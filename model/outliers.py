"""Outlier features by design: a model that computes the same, with some features of X a hundred times as large.

    norm gain g[k] *= f,    W[:, k] /= f;    (f g[k] x^) (W[:, k] / f) is what it was

Large language models grow such features from a few billion parameters on (Dettmers et al. 2022, arXiv:2208.07339, section 4);
a small one has none, so they are planted here, to see what int8 activations make of them.
"""

from __future__ import annotations

import torch

from model.transformer import Transformer, norms_before

FACTOR = 64.0
"""A power of two, so that no digit of a weight changes in floating point."""


@torch.no_grad()
def plant(model: Transformer, features: int = 4, factor: float = FACTOR, seed: int = 1) -> dict[str, torch.Tensor]:
    """Makes `features` outliers of each layer that reads a norm, in place; the same function as before.

    Returns name of layer -> the features, int64 [features]. Raises ValueError for more features than there are.
    """
    if not 0 <= features <= model.sizes.width:
        raise ValueError(f"plant: found features={features}, expected 0 to {model.sizes.width}; 4 is enough to do harm")
    generator = torch.Generator().manual_seed(seed)
    planted = {}
    for _, norm, name, layer in norms_before(model):
        chosen = torch.randperm(model.sizes.width, generator=generator)[:features].to(norm.weight.device)
        norm.weight[chosen] *= factor
        layer.weight[:, chosen] /= factor
        planted[name] = chosen
    return planted
