"""Tensors with guard regions: one layout for the interpreter's buffers and the GPU's.

| guard | tensor, gaps of a strided view filled with the poison | guard |
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

GUARD_BYTES = 64 << 10
POISON_BYTE = 0x7E
"""0x7E7E as fp16 is a NaN; as int8 it is 126, as int32 it is about 2.1e9: a value that shows."""


@dataclass
class Guarded:
    """A tensor inside its buffer. `buffer` uint8 on any device; `tensor` a strided view into it."""

    name: str
    buffer: torch.Tensor
    tensor: torch.Tensor
    offset: int

    def overrun(self) -> bool:
        """Whether a byte outside the tensor is no longer poison."""
        width = self.tensor.element_size()
        first = self.offset * width
        end = first + self.tensor.numel() * width
        if self.tensor.is_contiguous():
            return bool((self.buffer[:first] != POISON_BYTE).any() or (self.buffer[end:] != POISON_BYTE).any())
        changed = self.buffer != POISON_BYTE
        inside = (*self.tensor.shape, width), (*(step * width for step in self.tensor.stride()), 1)
        changed.as_strided(*inside, first).fill_(False)
        return bool(changed.any())


def guard(name: str, tensor: torch.Tensor, *, fill: bool = True, device: torch.device | None = None) -> Guarded:
    """Places a copy of `tensor`, strides kept, between guard regions on `device` (default: where it is).

    `fill=False` leaves NaN poison inside, for outputs.
    """
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    extent = max(extent, 1) if tensor.numel() else 1
    size = GUARD_BYTES + -(-extent * tensor.element_size() // 256) * 256 + GUARD_BYTES
    buffer = torch.empty(size, dtype=torch.uint8, device=device or tensor.device)
    buffer.fill_(POISON_BYTE)
    offset = GUARD_BYTES // tensor.element_size()
    flat = buffer.view(tensor.dtype)
    view = torch.as_strided(flat, tensor.shape, tensor.stride(), flat.storage_offset() + offset)
    if fill:
        view.copy_(tensor)
    return Guarded(name, buffer, view, offset)
