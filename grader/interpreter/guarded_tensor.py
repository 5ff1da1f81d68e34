"""A caller's tensor, of NumPy or PyTorch, inside a buffer with guard regions, and back again. PyTorch is never imported here."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.interpreter.areas import WIDTHS
from grader.interpreter.native_memory import POISON_BYTE

GUARD_BYTES = 64 << 10
KINDS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
"""By the name that PyTorch and NumPy have for an element's type, the one that Triton has."""

BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
"""By its width, an integer that both NumPy and PyTorch have."""


def is_tensor(value: Any) -> bool:
    """Whether the kernel takes the value as a pointer."""
    return isinstance(value, GuardedTensor) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def copy_back(tensor: Any, bits: np.ndarray[Any, Any]) -> None:
    """Puts elements, as `elements` gives them, into the caller's tensor."""
    if isinstance(tensor, np.ndarray):
        tensor.view(bits.dtype)[...] = bits
        return
    torch = sys.modules["torch"]
    whole = BITS[bits.itemsize]
    tensor.detach().view(getattr(torch, whole)).copy_(torch.from_numpy(np.array(bits).view(whole)))


def kind_of(value: Any) -> str:
    """Triton's name for the type of a tensor's elements. Raises TypeError."""
    name = str(value.dtype).removeprefix("torch.")
    if name not in KINDS:
        raise TypeError(f"tensors of {name} are not known here, expected one of {', '.join(KINDS)}")
    return KINDS[name]


def elements(value: Any) -> np.ndarray[Any, Any]:
    """The tensor's elements as whole numbers of their width, with its strides: a view where it is on the host."""
    if isinstance(value, np.ndarray):
        return value.view(f"u{value.itemsize}")
    torch = sys.modules["torch"]
    width = value.element_size()
    return value.detach().view(getattr(torch, BITS[width])).cpu().numpy().view(f"u{width}")  # type: ignore[no-any-return]


@dataclass(frozen=True)
class GuardedTensor:
    """A tensor as a launch takes it: `buffer`, bytes, holds it from element `offset` on, and poison around it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""

    offset: int
    buffer: np.ndarray[Any, Any]

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return WIDTHS[self.kind]

    @classmethod
    def of(cls, name: str, value: Any, *, empty: bool = False) -> GuardedTensor:
        """A copy of the caller's tensor; poison, if it arrives empty. A guarded one stays. Raises TypeError and ValueError."""
        if isinstance(value, cls):
            return value
        data = elements(value)
        strides = tuple(step // data.itemsize for step in data.strides)
        if min(strides, default=0) < 0:
            raise ValueError(f"{name} has a negative stride, which no pointer argument has")
        extent = 1 + sum((size - 1) * step for size, step in zip(data.shape, strides, strict=True)) if data.size else 1
        buffer = np.full(2 * GUARD_BYTES + -(-extent * data.itemsize // 256) * 256, POISON_BYTE, dtype=np.uint8)
        guarded = cls(name, kind_of(value), data.shape, strides, GUARD_BYTES // data.itemsize, buffer)
        if not empty:
            guarded.data[...] = data
        return guarded

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The tensor in its buffer, as whole numbers."""
        begin = self.buffer[self.offset * self.width :].view(f"u{self.width}")
        return np.lib.stride_tricks.as_strided(begin, self.shape, tuple(step * self.width for step in self.strides))

    @property
    def poisoned(self) -> int:
        """How many elements are poison."""
        return int((self.data == int.from_bytes(bytes([POISON_BYTE]) * self.width, "little")).sum())
