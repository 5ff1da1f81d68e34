"""A tensor in this process's memory, as Triton's interpreter takes one for a pointer: without torch, whose import takes longest."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTHS = {
    "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8, "fp8e4nv": 1, "fp8e5": 1, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip
"""Bytes of an element, by Triton's name for its type."""


class HostTensor:
    """A kernel's argument, which begins at element `offset` of `buffer`, an array of bytes.

    The interpreter asks for a tensor's address, and copies to the host and back what lies on a device: here nothing.
    """

    def __init__(self, buffer: np.ndarray[Any, Any], kind: str, offset: int) -> None:
        """kind: the type of its elements, one of WIDTHS."""
        self.buffer, self.kind, self.width, self.offset = buffer, kind, WIDTHS[kind], offset

    def data_ptr(self) -> int:
        """The address of its first element."""
        return int(self.buffer.ctypes.data) + self.offset * self.width

    def untyped_storage(self) -> _Storage:
        """What it shares with other tensors on the same buffer."""
        return _Storage(self.buffer)

    def storage_offset(self) -> int:
        """The element of the storage at which it begins."""
        return self.offset

    def size(self) -> tuple[int, ...]:
        """No kernel can ask for it: a pointer has no shape."""
        return ()

    stride = size

    def new_empty(self, *sizes: int, device: str) -> HostTensor:
        """The tensor on the host: this one."""
        return self

    def set_(self, *place: Any) -> None:
        """It is where it should be."""


class _Storage:
    """The bytes that a tensor is a view of."""

    def __init__(self, buffer: np.ndarray[Any, Any]) -> None:
        self.buffer = buffer

    def data_ptr(self) -> int:
        return int(self.buffer.ctypes.data)

    def cpu(self) -> _Storage:
        return self

    def copy_(self, other: _Storage) -> None:
        """From the host to the device, which are one."""
