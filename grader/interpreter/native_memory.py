"""The interpreter's native memory functions, and what those that check each access on its way need of them."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from triton._C.libtriton import ir
from triton.runtime.interpreter import interpreter_builder

from grader.interpreter.areas import Area

POISON_BYTE = 0x7E
"""What fills a value that no kernel can rely on: a large number in every type, NaN in fp16."""


def poison(dtype: Any) -> Any:
    """The number of that type that is poison."""
    return np.full(np.dtype(dtype).itemsize, POISON_BYTE, dtype=np.uint8).view(dtype)[0]


class NativeMemory:
    """Stands in front of Triton's native functions for a `check`: what a subclass does not define goes straight to them."""

    def __init__(self, memory: Any, check: Any) -> None:
        self._memory, self._check = memory, check

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def _program(self) -> int:
        """The number of the program that is running, counted along the grid."""
        (x, y, z), (_, height, depth) = interpreter_builder.grid_idx, interpreter_builder.grid_dim
        return int((x * height + y) * depth + z)

    def _within_a_program(self) -> bool:
        """Whether the atomic that runs is one to the threads of its program only."""
        return interpreter_builder.scope == ir.MEM_SYNC_SCOPE.CTA

    def _load(self, pointers: Any, mask: Any, other: Any, dtype: Any, stray: np.ndarray | None = None) -> np.ndarray:
        """As Triton's native load of real addresses; see `taken`. stray: the lanes that find poison."""
        loaded = self._taken(pointers, mask, other, dtype)
        if stray is not None:
            loaded[stray] = poison(dtype)
        return loaded

    def _taken(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> np.ndarray:
        pointers, width = np.asarray(pointers), np.dtype(dtype).itemsize
        active = pointers.reshape(-1) if mask.all() else pointers[mask]
        if active.size:
            lowest, highest = int(active.min()), int(active.max())
            for area in self._check.areas:
                begin = (area.first + area.shift) % 2**64
                if begin <= lowest and highest <= begin + area.size - width:
                    places = (active - np.uint64(begin)).view(np.int64)
                    if not (places & width - 1).any():
                        return taken(area, places >> width.bit_length() - 1, pointers.shape, mask, other, dtype)
        return self._memory.load(pointers, mask, other, dtype)  # type: ignore[no-any-return]


def taken(
    area: Area, places: np.ndarray, shape: tuple[int, ...], mask: np.ndarray, other: Any, dtype: Any
) -> np.ndarray:
    """What a load's active lanes find, at these places of the tensor's buffer as one of this type, and `other` in the rest. Triton's native
    load takes twenty times as long."""
    whole = area.size - area.size % np.dtype(dtype).itemsize
    found: np.ndarray = area.buffer[:whole].view(dtype)[places]
    if found.size == math.prod(shape):
        return found.reshape(shape)
    loaded = np.array(np.broadcast_to(other, shape), dtype=dtype)
    loaded[mask] = found
    return loaded


def atomic_rmw(memory: Any, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
    """The native one; what it raises an error for, an fp16 sum past 65504, becomes infinite, as on a GPU. It takes the values as they lie
    in memory, in whatever order that is."""
    values = np.ascontiguousarray(values)
    if values.dtype != np.float16 or operation.name != "FADD" or not mask.any():
        return memory.atomic_rmw(operation, pointers, values, mask, order)
    before = memory.load(pointers, mask, np.zeros_like(values), values.dtype)
    added, there = values[mask].astype(np.float32), before[mask].astype(np.float32)
    if (
        np.abs(added).sum() + np.abs(there).max() <= np.finfo(np.float16).max
    ):  # so is any order, and no NaN is among them
        return memory.atomic_rmw(operation, pointers, values, mask, order)
    with np.errstate(over="ignore", invalid="ignore"):
        if len(np.unique(pointers[mask])) == len(added):
            memory.store(pointers, (before.astype(np.float32) + values.astype(np.float32)).astype(np.float16), mask)
            return before
        for lane in map(tuple, np.argwhere(mask)):
            alone = np.zeros_like(mask)
            alone[lane] = True
            before[lane] = memory.load(pointers, alone, np.zeros_like(values), values.dtype)[lane]
            total = (before.astype(np.float32) + values.astype(np.float32)).astype(np.float16)
            memory.store(pointers, total, alone)
    return before


def line_in(path: str) -> int | None:
    """The innermost line of the module at `path` on the stack."""
    return next(iter(lines_in(path)), None)


def lines_in(path: str) -> list[int]:
    """The lines of the module at `path` on the stack, the innermost first: where something is, and the calls that led there."""
    lines, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            lines.append(frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return lines
