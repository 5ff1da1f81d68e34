"""A vision encoder in plain PyTorch: the image encoder of Segment Anything without its neck.

Blocks see windows of the image, some of them all of it. Positions are added once, and relative ones to the attention's scores where that
is asked for. Sizes are those of ViT-H. Source: Li et al. 2022, "Exploring Plain Vision Transformer Backbones for Object Detection",
arXiv:2203.16527; Kirillov et al. 2023, "Segment Anything", arXiv:2304.02643.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

SPREAD = 0.02
"""Standard deviation of the random weights."""


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes of an encoder. image, patch in pixels; window in patches; global_blocks: those that see the whole image.

    relative_positions: whether scores get the decomposed relative positions of Li et al. A block that sees all of a large image then
    has them as a bias of heads x tokens x tokens in memory, which no flash attention of PyTorch takes.
    """

    blocks: int = 32
    width: int = 1280
    heads: int = 16
    image: int = 1024
    patch: int = 16
    window: int = 14
    global_blocks: tuple[int, ...] = (7, 15, 23, 31)
    relative_positions: bool = False

    def __post_init__(self) -> None:
        if self.width % self.heads or self.image % self.patch:
            raise ValueError(
                f"EncoderSizes: found width={self.width}, heads={self.heads}, image={self.image} and patch={self.patch}, expected heads "
                "that divide the width and patches that divide the image; choose others"
            )

    @property
    def side(self) -> int:
        """Patches along a side of the image."""
        return self.image // self.patch


class ImageAttention(nn.Module):
    """Self-attention over all places of a [side, side] map."""

    def __init__(self, sizes: EncoderSizes, side: int) -> None:
        super().__init__()
        self.heads, self.side = sizes.heads, side
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.proj = nn.Linear(sizes.width, sizes.width)
        size = sizes.width // sizes.heads
        self.rows = nn.Parameter(SPREAD * torch.randn(2 * side - 1, size)) if sizes.relative_positions else None
        self.columns = nn.Parameter(SPREAD * torch.randn(2 * side - 1, size)) if sizes.relative_positions else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [maps, side, side, width] -> the same shape."""
        maps, side, _, width = x.shape
        qkv = self.qkv(x).view(maps, side * side, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=self._positions(query))
        return self.proj(mixed.transpose(1, 2).reshape(maps, side, side, width))  # type: ignore[no-any-return]

    def _positions(self, query: torch.Tensor) -> torch.Tensor | None:
        """query [maps, heads, side * side, size] -> what is added to its scores, [maps, heads, side * side, side * side]."""
        if self.rows is None or self.columns is None:
            return None
        side = self.side
        apart = torch.arange(side, device=query.device)[:, None] - torch.arange(side, device=query.device) + side - 1
        places = query.unflatten(2, (side, side))
        by_row = torch.einsum("bnhwc,hkc->bnhwk", places, self.rows[apart])
        by_column = torch.einsum("bnhwc,wkc->bnhwk", places, self.columns[apart])
        return (by_row[..., :, None] + by_column[..., None, :]).flatten(4).flatten(2, 3)


class ImageMLP(nn.Module):
    """Two layers with GELU between them, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(width, 4 * width)
        self.lin2 = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin2(F.gelu(self.lin1(x)))  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). window: side of the windows that attention stays in; 0 for none."""

    def __init__(self, sizes: EncoderSizes, window: int) -> None:
        super().__init__()
        self.window = window
        self.norm1 = nn.LayerNorm(sizes.width, eps=1e-6)
        self.attention = ImageAttention(sizes, window or sizes.side)
        self.norm2 = nn.LayerNorm(sizes.width, eps=1e-6)
        self.mlp = ImageMLP(sizes.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, side, side, width] -> the same shape."""
        attended = self.norm1(x)
        if self.window:
            batch, side = x.shape[:2]
            attended = from_windows(self.attention(to_windows(attended, self.window)), batch, side)
        else:
            attended = self.attention(attended)
        x = x + attended
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class VisionEncoder(nn.Module):
    """Images in, a map of features out."""

    def __init__(self, sizes: EncoderSizes) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, sizes.width, sizes.patch, sizes.patch)
        self.positions = nn.Parameter(SPREAD * torch.randn(1, sizes.side, sizes.side, sizes.width))
        self.blocks = nn.ModuleList(
            EncoderBlock(sizes, 0 if number in sizes.global_blocks else sizes.window) for number in range(sizes.blocks)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=SPREAD)
                nn.init.normal_(layer.bias, std=SPREAD)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, image, image] -> [batch, side, side, width]."""
        x: torch.Tensor = self.patches(images).permute(0, 2, 3, 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return x


def to_windows(x: torch.Tensor, window: int) -> torch.Tensor:
    """x [batch, side, side, width], padded with zeros to whole windows -> [batch * windows, window, window, width]."""
    batch, side, _, width = x.shape
    padding = -side % window
    x = F.pad(x, (0, 0, 0, padding, 0, padding))
    across = (side + padding) // window
    x = x.view(batch, across, window, across, window, width).transpose(2, 3)
    return x.reshape(-1, window, window, width)


def from_windows(x: torch.Tensor, batch: int, side: int) -> torch.Tensor:
    """The inverse of `to_windows`, the padding left out."""
    window, width = x.shape[1], x.shape[-1]
    across = -(-side // window)
    x = x.view(batch, across, across, window, window, width).transpose(2, 3)
    return x.reshape(batch, across * window, across * window, width)[:, :side, :side]
