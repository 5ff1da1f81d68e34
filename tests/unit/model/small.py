"""A tiny untrained model and texts for tests that need no trained one."""

from __future__ import annotations

import torch

from model.transformer import Sizes, Transformer

TINY = Sizes(layers=2, width=64, heads=2, context=32)


def tiny_model(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TINY).eval()


def tokens(batch: int = 4, length: int = 32, seed: int = 0) -> torch.Tensor:
    return torch.randint(256, (batch, length), generator=torch.Generator().manual_seed(seed))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
