"""Promises to the compiler: is what tl.assume, tl.multiple_of, tl.max_contiguous and tl.max_constancy say so?

The compiler believes them, so a kernel that breaks one is undefined. The interpreter needs none of them, and so checks each.

Lanes past the end of a tensor are not accused: Triton's tutorials promise a contiguous tile of `offs % M`, of which those lanes
begin again at 0, and mask them at the store. The same goes for lanes that stay at the last element, or are all 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from grader.interpreter.control_flow import LaunchEvents, listed, plain
from grader.interpreter.orders import PROMISED, left_open
from grader.interpreter.per_program import PerProgram

MULTIPLE, CONTIGUOUS, CONSTANT, ASSUMED = "multiple", "contiguous", "constant", "assumed"
PROMISES = {"multiple_of": MULTIPLE, "max_contiguous": CONTIGUOUS, "max_constancy": CONSTANT}
"""Functions of triton.language that tell the compiler something of a tensor, and what."""

Seen = tuple[int, ...]
"""Numbers that break a promise: the first in a place where it cannot stand, and the one before it, if that says more."""


def checked(kind: str) -> Callable[..., Any]:
    """A function that takes the place of one of PROMISES, and checks what it is given."""

    def hint(input: Any, values: Any, _semantic: Any = None, **_: Any) -> Any:
        if isinstance(input, tl.core.tensor):
            promises = [int(plain(value)) for value in listed(values)]
            for promised, seen in breaks(kind, input.handle, promises):
                LaunchEvents.broken(kind, promised, seen)
            if kind == CONTIGUOUS:
                return believed(input, promises)
        return input

    return hint


def assumed(condition: Any) -> None:
    """tl.assume of a condition."""
    if not condition.data.all():
        LaunchEvents.broken(ASSUMED, 0, ())


def breaks(kind: str, handle: Any, promises: Sequence[int]) -> list[tuple[int, Seen]]:
    """Along each axis of a tensor what was promised, and the numbers that break it."""
    data, unit = handle.data, 1
    every = data.stack if hasattr(data, "stack") else data[None]  # of all programs that run in lockstep
    if data.dtype.kind not in "iu" or (len(promises) != data.ndim and data.size != 1):
        return []
    pointers = handle.dtype.scalar.is_ptr()
    if pointers:  # addresses: their divisibility is one of bytes, their neighbours are elements apart
        unit = max(1, handle.dtype.scalar.element_ty.primitive_bitwidth // 8)
    found = []
    for axis, promised in enumerate(promises):
        if promised > 1:
            lines = np.moveaxis(every, axis + 1, -1).reshape(-1, data.shape[axis]).astype(np.int64, copy=False)
            seen = _BROKEN[kind](lines, promised, unit)
            if seen:
                found.append((promised, _without_place(kind, seen, promised, unit) if pointers else seen))
    return found


def believed(tensor: Any, promises: Sequence[int]) -> Any:
    """The tensor; where its neighbours are none, in another order (orders.py) what the compiler goes by, which is that they are."""
    data, kind = tensor.handle.data, tensor.dtype.scalar
    if data.dtype.kind not in "iu" or len(promises) != data.ndim:
        return tensor
    unit = max(1, kind.element_ty.primitive_bitwidth // 8) if kind.is_ptr() else 1
    every = getattr(data, "stack", data[None])
    for axis, promised in enumerate(promises):
        size, lanes = min(promised, data.shape[axis]), np.arange(data.shape[axis])
        first = np.take(every, lanes // size * size, axis + 1)
        lane = (lanes % size * unit).astype(every.dtype).reshape(-1, *(1,) * (data.ndim - 1 - axis))
        every = first + lane
    if (every == getattr(data, "stack", data[None])).all() or not left_open(PROMISED):
        return tensor
    handle = TensorHandle(PerProgram(every) if hasattr(data, "stack") else every[0], tensor.handle.dtype)
    return tl.core.tensor(handle, tensor.type)


def _without_place(kind: str, seen: Seen, promised: int, unit: int) -> Seen:
    """Addresses as a student can read them: bytes past a multiple, or elements from the first."""
    return (seen[0] % promised,) if kind == MULTIPLE else tuple((one - seen[0]) // unit for one in seen)


def _no_multiple(lines: np.ndarray, promised: int, unit: int) -> Seen:
    """Of a tile the compiler takes the promise for the first number of each run of neighbours."""
    first = np.ones(lines.shape, dtype=bool)
    steps = np.diff(lines, axis=1)
    first[:, 1:] = (steps != unit) & (steps != 0)  # what only repeats is no new number
    bad = first & (lines % promised != 0)
    return (int(lines[bad][0]),) if bad.any() else ()


def _no_neighbours(lines: np.ndarray, promised: int, unit: int) -> Seen:
    chunks = _chunks(lines, promised)
    lanes = np.arange(chunks.shape[1])
    broken = chunks != chunks[:, :1] + unit * lanes
    rows = np.flatnonzero(broken.any(axis=1))
    if not len(rows):
        return ()
    chunks, at = chunks[rows], broken[rows].argmax(axis=1)
    last, behind = (chunks[np.arange(len(rows)), lane][:, None] for lane in (at - 1, at))
    past = lanes >= at[:, None]
    around = np.maximum((last - behind) // unit + 1, 1)
    again = behind + unit * ((lanes - at[:, None]) % around)
    harmless = ((chunks == behind) | ~past).all(axis=1) | ((chunks == again) | ~past).all(axis=1)
    harmless &= ((behind == last) | ((behind < last) & ((behind == 0) | (unit > 1))))[:, 0]
    bad = np.flatnonzero(~harmless)
    return (int(last[bad[0], 0]), int(behind[bad[0], 0])) if len(bad) else ()


def _no_constant(lines: np.ndarray, promised: int, unit: int) -> Seen:
    chunks = _chunks(lines, promised)
    broken = chunks != chunks[:, :1]
    if not broken.any():
        return ()
    row, lane = np.argwhere(broken)[0]
    return int(chunks[row, 0]), int(chunks[row, lane])


def _chunks(lines: np.ndarray, promised: int) -> np.ndarray:
    """Lines in pieces of as many lanes as were promised; the whole line where it is shorter."""
    size = min(promised, lines.shape[1])
    return lines[:, : lines.shape[1] // size * size].reshape(-1, size)


_BROKEN = {MULTIPLE: _no_multiple, CONTIGUOUS: _no_neighbours, CONSTANT: _no_constant}
