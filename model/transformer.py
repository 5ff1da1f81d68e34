"""What does the small model compute? A decoder-only transformer over bytes, with the layers that the labs replace.

Pre-norm blocks (Xiong et al. 2020) with RMSNorm (Zhang and Sennrich 2019), rotary positions (Su et al. 2021) and GELU. Every
matrix product with a weight is an `nn.Linear` without bias whose sides are multiples of 64, so that each lab's format fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256
"""Tokens are bytes."""

STEP = 64
"""What divides the sides of every Linear layer."""

INITIAL_SPREAD = 0.02
ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model. `width`: features of a token; `context`: the most bytes that it looks at."""

    layers: int = 6
    width: int = 256
    heads: int = 4
    context: int = 256

    def __post_init__(self) -> None:
        if self.width % STEP or self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(
                f"Sizes: found width={self.width} and heads={self.heads}, expected a width that is a multiple of {STEP} "
                "and splits into heads of an even size; try width=256, heads=4"
            )


class Attention(nn.Module):
    """Causal self-attention over several heads; rotary positions turn queries and keys."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)

    def forward(self, x: torch.Tensor, cos_sin: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """x [batch, length, width] -> the same shape; cos_sin: cosines and sines [length, head size / 2]."""
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key = rotate(heads[0], *cos_sin), rotate(heads[1], *cos_sin)
        mixed = F.scaled_dot_product_attention(query, key, heads[2], is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """Two layers with GELU between them, four times as wide inside."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.up = nn.Linear(sizes.width, 4 * sizes.width, bias=False)
        self.down = nn.Linear(4 * sizes.width, sizes.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))  # type: ignore[no-any-return]


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.width, eps=1e-6)
        self.attention = Attention(sizes)
        self.mlp_norm = nn.RMSNorm(sizes.width, eps=1e-6)
        self.mlp = MLP(sizes)

    def forward(self, x: torch.Tensor, cos_sin: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cos_sin)
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Bytes in, a distribution over the next byte out at every place."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(VOCABULARY, sizes.width)
        self.blocks = nn.ModuleList(TransformerBlock(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width, eps=1e-6)
        self.head = nn.Linear(sizes.width, VOCABULARY, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_stream = name.endswith(("attention.out.weight", "mlp.down.weight"))
                nn.init.normal_(parameter, std=INITIAL_SPREAD / ((2 * sizes.layers) ** 0.5 if into_stream else 1.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens int64 [batch, length], length at most the context -> logits [batch, length, 256] in the dtype of the weights.

        Raises ValueError for a text that is longer than the context.
        """
        length = tokens.shape[-1]
        if length > self.sizes.context:
            raise ValueError(f"found {length} bytes, expected at most {self.sizes.context}; cut the text into windows")
        x = self.embedding(tokens)
        cos_sin = rotary_cos_sin(length, self.sizes.width // self.sizes.heads, x.device)
        for block in self.blocks:
            x = block(x, cos_sin)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def rotary_cos_sin(length: int, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [length, size / 2], fp32: place t turns pair i by the angle t * 10000^(-2 i / size)."""
    rates = ROTARY_BASE ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * rates
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turns the pairs (i, i + size / 2) of the last axis by the angles of each place. x [..., length, size], dtype kept."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1).to(x.dtype)


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Name and layer of every Linear layer, in the order of the model."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}


def norms_before(model: Transformer) -> Iterator[tuple[str, nn.RMSNorm, str, nn.Linear]]:
    """Each norm with the Linear layer that alone reads it: (name of norm, norm, name of layer, layer)."""
    for at, block in enumerate(model.blocks):
        assert isinstance(block, TransformerBlock)
        yield f"blocks.{at}.attention_norm", block.attention_norm, f"blocks.{at}.attention.qkv", block.attention.qkv
        yield f"blocks.{at}.mlp_norm", block.mlp_norm, f"blocks.{at}.mlp.up", block.mlp.up
    yield "norm", model.norm, "head", model.head
