"""Where a tensor lies while a launch is watched, and which of its elements a tile is meant for."""

from __future__ import annotations

import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDTHS = {
    "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8, "fp8e4nv": 1, "fp8e5": 1, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "u8": 1, "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip
"""Bytes of an element, by Triton's name for its type."""

WINDOW_BITS = 56
"""A tensor's own range of addresses: an offset that was computed from any number of 32 bits, read by mistake or not, stays inside."""

PLACES, ALIGNMENT = 1 << 20, 512
"""How many places in its window a tensor may have, and the bytes from one to the next."""

MOST_APART = 8
"""A tile may take every eighth element: eight numbers lie in a word of four bits each."""


@dataclass(eq=False)
class Area:
    """One pointer argument: a tensor inside a guarded buffer, and who wrote which of its elements.

    type: Triton's name for the type of its elements. offset: the element of the buffer at which the tensor begins. `low` to `high`:
    the addresses of its elements, all of them when `dense`. `first`: the buffer's address, `size` its bytes. `writer` holds, for each
    element of the buffer, one more than the last program that stored there, negative where it was added atomically, by SEVERAL maybe, and
    -SEVERAL where several stored; `operation` the number of the atomic that was used there, -1 where there were several kinds. `added`:
    of an output, how many atomics brought an element anything but zero. `reader`: of an output, one more than the program that loaded
    what nobody had written yet (-SEVERAL: several did), and `read_at` where. `apart`: by how much the numbers that several brought to an
    element differ, where rounding may explain it. `lanes`: of an output, by which lane of what tile an element was stored to last, and
    after how many barriers; `readers`: the same of the last load.
    """

    buffer: np.ndarray
    name: str
    type: str
    shape: Sequence[int]
    strides: Sequence[int]
    offset: int
    poisoned: bool
    output: bool
    writer: np.ndarray | None = None
    operation: np.ndarray | None = None
    added: np.ndarray | None = None
    reader: np.ndarray | None = None
    read_at: tuple[int | None, list[int]] = field(default_factory=lambda: (None, []))
    apart: np.ndarray | None = None
    lanes: np.ndarray | None = None
    readers: np.ndarray | None = None
    strayed: bool = False

    def __post_init__(self) -> None:
        self.width, self.size = WIDTHS[self.type], self.buffer.nbytes
        self.valid = np.zeros(self.size // self.width, dtype=bool)
        self.as_laid_out(self.valid)[...] = True
        self.hull = range(
            self.offset, self.offset + 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        )
        self.dense = bool(self.valid[self.hull.start : self.hull.stop].all())
        self.arrived = zlib.crc32(self.buffer)
        self.number = self.base = self.first = self.low = self.high = self.shift = 0

    def place(self, number: int) -> None:
        """Gives the launch's tensor of this number its address: another for other contents, as on a GPU."""
        self.number = number
        self.base = ((number + 1) << WINDOW_BITS) + (1 << (WINDOW_BITS - 1)) + self.arrived % PLACES * ALIGNMENT
        self.first = self.base - self.offset * self.width
        self.shift = (self.buffer.ctypes.data - self.first) % 2**64
        self.low, self.high = (self.first + at * self.width for at in (self.hull.start, self.hull.stop))

    def offsets(self, addresses: np.ndarray) -> np.ndarray:
        """In bytes from the buffer's first, as signed numbers."""
        return (addresses - np.uint64(self.first)).view(np.int64)

    def elements(self, addresses: np.ndarray) -> np.ndarray:
        """The numbers of the elements in which these addresses lie, from the buffer's first one on; negative before it."""
        return self.offsets(addresses) >> self.width.bit_length() - 1  # which takes a quarter of a division's time

    def good(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """Which of these begin an access of `width` bytes that lies in elements only."""
        offsets = self.offsets(addresses)
        inside = (offsets >= 0) & (offsets <= self.size - width)
        first = np.where(inside, offsets, 0)
        good = inside & self.valid[first // self.width]
        if width != self.width:
            good &= self.valid[(first + width - 1) // self.width]
        return good

    def as_laid_out(self, numbers: np.ndarray) -> np.ndarray:
        """A view, [*shape], of numbers for each element of the buffer: those of the tensor's elements."""
        steps = tuple(step * numbers.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, steps)

    def row_maxima(self, kind: np.dtype) -> np.ndarray:
        """For each element of the buffer the largest finite number, as it is now, of the tensor's row in which it lies."""
        numbers = np.abs(self.buffer[: len(self.valid) * self.width].view(kind).astype(np.float64))
        numbers[~np.isfinite(numbers)] = 0.0
        found = np.zeros(len(self.valid))
        self.as_laid_out(found)[...] = self.as_laid_out(numbers).max(axis=-1, keepdims=True)
        return found


def area_of(addresses: np.ndarray, areas: Sequence[Area]) -> tuple[Area | None, bool]:
    """The tensor in whose window all of these addresses lie, None where there is none or are several; and whether each is one of its
    first element, its last one, or between."""
    lowest, highest = int(addresses.min()), int(addresses.max())
    number = (lowest >> WINDOW_BITS) - 1
    if number != (highest >> WINDOW_BITS) - 1 or not 0 <= number < len(areas):
        return None, False
    return areas[number], areas[number].low <= lowest and highest < areas[number].high


def index_at(offset: Any, area: Area) -> list[Any]:
    """The index of an element by its offset from the first, or of several by an array of these; beyond the tensor, indices go on past their
    sizes."""
    index = [offset * 0] * len(area.shape)
    for d in sorted(range(len(area.shape)), key=lambda d: (area.strides[d], area.shape[d]), reverse=True):
        if area.strides[d]:
            index[d], offset = divmod(offset, area.strides[d])
    return index


def along_axes(offsets: np.ndarray, area: Area) -> list[np.ndarray] | None:
    """The index that each lane of some tiles was meant for, an array for each dimension: that of a tile's first lane, and a step in a
    dimension of its own for each axis. An axis that goes over several blocks of a tensor of blocks steps in all of its dimensions.
    offsets: [tiles, ...], all of one form, wherever each begins.

    Unlike an address this tells the column after a row's last from the first of the next row. None when an axis
    moves by something that is no stride of the tensor, nor a few of them, or two axes by the same.
    """
    corners = offsets.reshape(len(offsets), -1)[:, 0]
    apart = offsets[0] - corners[0]
    found = _moves(apart, area)
    if found is None:
        return None
    moves, blockwise = found
    lengths = {d: int(moved.max()) + 1 for d, moved in moves.items()}
    along = [
        np.broadcast_to(start.reshape(-1, *(1,) * apart.ndim), offsets.shape) + moves.get(d, 0)
        for d, start in enumerate(_starts(index_at(corners, area), lengths, area))
    ]
    for moved in blockwise:
        for d in sorted(range(len(along)), key=lambda d: area.strides[d], reverse=True):
            further, moved = np.divmod(moved, area.strides[d])
            along[d] = along[d] + further
    return along


def _moves(apart: np.ndarray, area: Area) -> tuple[dict[int, np.ndarray], list[np.ndarray]] | None:
    """By how many elements of which dimension each lane lies apart from the first one, and along which axes by blocks of several; None as
    for `along_axes`."""
    moves: dict[int, np.ndarray] = {}
    reached = np.zeros_like(apart)
    uneven: list[tuple[int, np.ndarray]] = []
    blockwise: list[np.ndarray] = []
    for axis in range(apart.ndim):
        line = apart[(*(0,) * axis, slice(None), *(0,) * (apart.ndim - axis - 1))]
        steps = np.abs(np.diff(line))
        if not steps.any():
            continue
        step = int(steps[steps > 0].min())
        moved = line.reshape([-1 if at == axis else 1 for at in range(apart.ndim)])
        reached = reached + moved
        if len(area.shape) > 2 and (steps != step).any():  # columns of one block, then those of the next
            blockwise.append(moved)
            continue
        d = _dimension(step, area, moves, 1)
        if d is None:
            uneven.append((step, moved))
        else:
            moves[d] = moved // step
    for step, moved in uneven:
        d = _dimension(step, area, moves, MOST_APART)
        if d is None:
            return None
        moves[d] = moved // area.strides[d]
    return (moves, blockwise) if (reached == apart).all() else None


def _dimension(step: int, area: Area, taken: Container[int], most: int) -> int | None:
    """The dimension not yet taken in which an axis moves by `step`: by at most so many of its elements; the one with the longest stride, of
    equal ones the largest."""
    fitting = [
        d
        for d, stride in enumerate(area.strides)
        if stride and d not in taken and step % stride == 0 and step // stride <= most
    ]
    return max(fitting, key=lambda d: (area.strides[d], area.shape[d]), default=None)


def _starts(corners: list[np.ndarray], lengths: dict[int, int], area: Area) -> list[np.ndarray]:
    """Where tiles begin: a row too far, and where no tile begins in that one, is behind the end of the row before if there tiles begin.

    corners: their first elements as the addresses have them, [tiles] of each dimension. lengths: of the tiles along each dimension in
    which they move.
    """
    if len(lengths) != 2 or len(corners) != 2:
        return corners
    outer, inner = sorted((0, 1), key=lambda d: area.strides[d], reverse=True)
    behind = area.strides[outer] // area.strides[inner] if area.strides[inner] else 0
    if behind < area.shape[inner] or lengths[outer] <= 1:
        return corners
    begins = corners[outer] % lengths[outer] == 1
    stray = (corners[inner] == 0) | (corners[inner] % lengths[inner] != 0)
    before = begins & stray & ((behind + corners[inner]) % lengths[inner] == 0)
    found = list(corners)
    found[outer], found[inner] = corners[outer] - before, corners[inner] + np.where(before, behind, 0)
    return found


def steps_of(offsets: np.ndarray) -> list[int]:
    """By how many elements a tile moves along each of its axes; none where an axis is uneven or the tile is one element."""
    found = []
    for axis in range(offsets.ndim):
        steps = np.diff(offsets, axis=axis)
        if steps.size:
            found.append(int(steps.reshape(-1)[0]))
            if (steps != found[-1]).any():
                return []
    return found
