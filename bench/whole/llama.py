"""One layer of a decoder in plain PyTorch, for one new token of each sequence. Sizes are those of Llama 7 B.

Pre-norm with RMSNorm, rotary positions, a cache of keys and values, and an MLP with a SiLU gate. Source: Touvron et al. 2023, "LLaMA: Open
and Efficient Foundation Language Models", arXiv:2302.13971.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

SPREAD = 0.02
ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class DecoderSizes:
    """Sizes of a layer. hidden: features inside the MLP; context: places of the cache, all of them in use."""

    width: int = 4096
    hidden: int = 11008
    heads: int = 32
    context: int = 512

    def __post_init__(self) -> None:
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"DecoderSizes: found width={self.width} and heads={self.heads}, expected heads of an even size that divide the width"
            )


class DecoderLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), for the last place of the context."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        width, hidden = sizes.width, sizes.hidden
        self.heads, self.size = sizes.heads, width // sizes.heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        rates = ROTARY_BASE ** (-torch.arange(0, self.size, 2) / self.size)
        angles = (sizes.context - 1) * rates
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)
        self.cosines: torch.Tensor
        self.sines: torch.Tensor
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=SPREAD)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """x [batch, 1, width] -> the same shape. keys, values [batch, heads, context, size]; their last place is written."""
        normed = self.attention_norm(x)
        query, key, value = (layer(normed).view(-1, self.heads, 1, self.size) for layer in (self.q, self.k, self.v))
        keys[:, :, -1:], values[:, :, -1:] = self._rotated(key), value
        mixed = F.scaled_dot_product_attention(self._rotated(query), keys, values)
        x = x + self.o(mixed.reshape(x.shape))
        normed = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))  # type: ignore[no-any-return]

    def _rotated(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * self.cosines - second * self.sines, second * self.cosines + first * self.sines), dim=-1)


class Decoder(nn.Module):
    """Layers one after the other, each with weights and a cache of its own, so that each finds them cold in L2."""

    def __init__(self, sizes: DecoderSizes, layers: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(layers))

    def forward(self, x: torch.Tensor, caches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """x [batch, 1, width] -> the same shape; a cache (keys, values) for each layer."""
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            x = layer(x, keys, values)
        return x

    def caches(self, batch: int, like: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Random keys and values for each layer, in the dtype and on the device of `like`."""
        shape = (batch, self.sizes.heads, self.sizes.context, self.sizes.width // self.sizes.heads)
        return [(_random(shape, like), _random(shape, like)) for _ in self.layers]


def _random(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    return torch.randn(shape, dtype=like.dtype, device=like.device)
