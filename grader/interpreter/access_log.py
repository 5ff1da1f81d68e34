"""Every load, store and atomic of an interpreted launch: which bytes of which tensor each lane asked for.

memory_check tells an `AccessLog` of each while a launch runs. What that brings back is one block of bytes:

    uint32 accesses, uint32 lanes, then the table, int32 [accesses, 5 + AXES], then the lanes, int32 [lanes]

A row of the table is program (in the interpreter's order), kind, tensor, line (0: unknown), bytes a lane, and the shape of
the tile, padded with ones. Its lanes are offsets in bytes from the tensor's first element, OFF where the mask is false.
`grader.traffic.accesses` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from grader.interpreter.areas import Area, area_of
from grader.interpreter.faults import LaunchEnded
from grader.interpreter.memory_access import MemoryAccess
from grader.interpreter.native_memory import line_in

KINDS = ("load", "store", "atomic")
AXES = 6
OFF = -(2**31)
MAX_ACCESSES = 1 << 17
MAX_LANES = 1 << 23


class AccessLog:
    """Watches one launch. `areas`: the tensors, placed by memory_check; `path`: the file whose lines count."""

    def __init__(self, areas: Sequence[Area], path: str) -> None:
        self.areas, self.path = list(areas), path
        self.rows: list[tuple[int, ...]] = []
        self.lanes: list[np.ndarray] = []
        self.count = 0

    def answer(self) -> bytes:
        """What was logged. Empty when nothing was."""
        if not self.rows:
            return b""
        table, lanes = np.array(self.rows, dtype=np.int32), np.concatenate(self.lanes)
        return struct.pack("<II", len(table), len(lanes)) + table.tobytes() + lanes.tobytes()

    def add(self, access: MemoryAccess) -> None:
        """One access with an active lane. Raises LaunchEnded when there are more than this log has room for."""
        pointers, mask = access.pointers, access.mask
        self.count += pointers.size
        if self.count > MAX_LANES or len(self.rows) >= MAX_ACCESSES:
            raise LaunchEnded(
                "size",
                f"asks for more than {MAX_LANES} elements in all, too many to count one by one; choose smaller sizes",
            )
        area, _ = area_of(access.active, self.areas)
        if area is None:
            raise LaunchEnded("size", "reads or writes several tensors in one access, which cannot be drawn")
        offsets = (pointers - np.uint64(area.base)).view(np.int64)
        if (np.abs(offsets[mask]) >= 2**30).any():
            raise LaunchEnded("size", f"goes far outside {area.name}")
        shape = pointers.shape[:AXES] if pointers.ndim <= AXES else (pointers.size,)
        line = line_in(self.path) or 0
        numbers = (access.program, KINDS.index(access.kind), area.number, line, access.width)
        self.rows.append((*numbers, *shape, *(1,) * (AXES - len(shape))))
        self.lanes.append(np.where(mask, offsets, OFF).astype(np.int32).reshape(-1))
