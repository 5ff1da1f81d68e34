"""How well does a model predict the held-out text? Bits per byte, and perplexity, which is two to the power of them.

    bits per byte = -1/n sum log2 p(byte t | the bytes before it in its window);    perplexity = 2^(bits per byte)

Windows of `context` bytes follow each other without overlap and each byte is predicted once (the first of the text never), so
the first bytes of a window have little before them: the number is a little larger than with a sliding window, for all alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

WINDOWS_AT_ONCE = 16


@dataclass(frozen=True)
class Quality:
    """What was measured over `predicted` bytes."""

    bits_per_byte: float
    predicted: int

    @property
    def perplexity(self) -> float:
        """2^(bits per byte): a model that knows nothing about bytes has 256."""
        return math.exp2(self.bits_per_byte)


def as_tokens(text: bytes) -> torch.Tensor:
    """bytes -> int64 [length]."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def windows(text: bytes, context: int) -> torch.Tensor:
    """Consecutive windows of a text: int64 [count, context + 1], each begins with the last byte of the one before.

    What does not fill a window is left out. Raises ValueError for a text shorter than one window.
    """
    tokens = as_tokens(text)
    count = (len(tokens) - 1) // context
    if count < 1:
        raise ValueError(f"found {len(tokens)} bytes, expected more than the context of {context}; take a longer text")
    return tokens[: count * context + 1].unfold(0, context + 1, context)


@torch.no_grad()
def measure(model: nn.Module, text: bytes, context: int) -> Quality:
    """Bits per byte of `model` on a text; the sum is taken in fp64. Raises ValueError for a text shorter than a window."""
    device = next(model.parameters()).device
    total = torch.zeros((), dtype=torch.float64)
    cut = windows(text, context)
    for chunk in cut.split(WINDOWS_AT_ONCE):
        chunk = chunk.to(device)
        logits = model(chunk[:, :-1]).float()
        total += F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten(), reduction="sum").double().cpu()
    predicted = cut.shape[0] * context
    return Quality(total.item() / predicted / math.log(2.0), predicted)
