"""The accesses of an interpreted launch as data: who asked for which bytes of which tensor, in the order of the programs.

The bytes come from a sandbox (grader/interpreter/access_log.py), so they are parsed strictly: sizes fit exactly, every
program, tensor and kind is one that there is, every lane is masked or inside its tensor. Anything else raises ValueError.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Kind = Literal["load", "store", "atomic"]
KINDS: tuple[Kind, ...] = ("load", "store", "atomic")
AXES = 6
OFF = -(2**31)
MAX_ACCESSES = 1 << 17
MAX_LANES = 1 << 23
MAX_WIDTH = 16


@dataclass(frozen=True, eq=False)
class Access:
    """One load, store or atomic of one program.

    program: in the order in which a GPU starts them. step: the program's accesses before this one. line: of the module
    that was interpreted, 0 where unknown. width: bytes a lane. offsets: int32 in the shape of the tile, in bytes from the tensor's
    first element; OFF where the mask is false.
    """

    program: int
    step: int
    kind: Kind
    tensor: str
    line: int
    width: int
    offsets: np.ndarray[Any, Any]

    @property
    def active(self) -> np.ndarray[Any, Any]:
        """The offsets of the lanes whose mask is true, flat."""
        flat = self.offsets.reshape(-1)
        return np.asarray(flat[flat != OFF])


def parse(log: bytes, tensors: Sequence[tuple[str, int]], grid: tuple[int, int, int]) -> tuple[Access, ...]:
    """The accesses in a log, program after program. tensors: name and size in bytes of each pointer argument, in order."""
    if not log:
        return ()
    if len(log) < 8:
        raise ValueError("a log of fewer than 8 bytes")
    count, lanes = struct.unpack_from("<II", log)
    columns = 5 + AXES
    if count > MAX_ACCESSES or lanes > MAX_LANES or len(log) != 8 + 4 * (count * columns + lanes):
        raise ValueError("a log whose size is not what it says")
    table = np.frombuffer(log, dtype="<i4", count=count * columns, offset=8).reshape(count, columns).astype(np.int64)
    flat = np.frombuffer(log, dtype="<i4", count=lanes, offset=8 + 4 * count * columns)
    shapes = table[:, 5:]
    if (shapes < 1).any() or (shapes > MAX_LANES).any():
        raise ValueError("a tile of no size")
    sizes = [math.prod(int(n) for n in shape) for shape in shapes]
    programs = math.prod(grid)
    limits = ((0, programs), (0, len(KINDS)), (0, len(tensors)), (0, 1 << 24), (1, MAX_WIDTH + 1))
    for column, (low, high) in enumerate(limits):
        if ((table[:, column] < low) | (table[:, column] >= high)).any():
            raise ValueError("an access of no known program, kind, tensor, line or width")
    if sum(sizes) != lanes:
        raise ValueError("tiles that are not the lanes there are")
    _within(flat, np.array(sizes, dtype=np.int64), table, [size for _, size in tensors])
    started = launch_order(grid)
    steps: Counter[int] = Counter()
    found, place = [], 0
    for (program, kind, tensor, line, width, *shape), size in zip(table.tolist(), sizes, strict=True):
        offsets, name = flat[place : place + size].reshape(_trimmed(shape)), tensors[tensor][0]
        found.append(Access(int(started[program]), steps[program], KINDS[kind], name, line, width, offsets))
        steps[program] += 1
        place += size
    return tuple(sorted(found, key=lambda access: (access.program, access.step)))


def launch_order(grid: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """For each program in the interpreter's order (axis 2 fastest) its number in a GPU's (axis 0 fastest)."""
    x, y, z = np.unravel_index(np.arange(math.prod(grid)), grid)
    return np.asarray(x + grid[0] * (y + grid[1] * z))


def _within(
    flat: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], table: np.ndarray[Any, Any], limits: list[int]
) -> None:
    """Raises ValueError for a lane that is neither masked nor inside its tensor."""
    most = np.repeat(np.array(limits, dtype=np.int64)[table[:, 2]] - table[:, 4], sizes)
    if (((flat < 0) | (flat > most)) & (flat != OFF)).any():
        raise ValueError("an access outside its tensor")


def _trimmed(shape: list[int]) -> tuple[int, ...]:
    """A shape without the ones that it was padded with."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return tuple(shape)
