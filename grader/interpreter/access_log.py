"""Every load, store and atomic of an interpreted launch: which bytes of which tensor each lane asked for.

An `AccessLog` stands in front of memory_check while a launch runs. What it brings back is one block of bytes:

    uint32 accesses, uint32 lanes, then the table, int32 [accesses, 5 + AXES], then the lanes, int32 [lanes]

A row of the table is program (in the interpreter's order), kind, tensor, line (0: unknown), bytes a lane, and the shape of
the tile, padded with ones. Its lanes are offsets in bytes from the tensor's first element, OFF where the mask is false.
`grader.traffic.accesses` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from grader.interpreter.areas import Area, area_of
from grader.interpreter.faults import LaunchEnded
from grader.interpreter.native_memory import NativeMemory, line_in

LOAD, STORE, ATOMIC = range(3)
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

    @contextmanager
    def active(self) -> Iterator[None]:
        """Stands before the memory functions that are there now."""
        from triton.runtime import interpreter

        memory = interpreter._interpreter
        interpreter._interpreter = _Logged(memory, self, interpreter.interpreter_builder)
        try:
            yield
        finally:
            interpreter._interpreter = memory

    def answer(self) -> bytes:
        """What was logged. Empty when nothing was."""
        if not self.rows:
            return b""
        table, lanes = np.array(self.rows, dtype=np.int32), np.concatenate(self.lanes)
        return struct.pack("<II", len(table), len(lanes)) + table.tobytes() + lanes.tobytes()

    def add(self, kind: int, pointers: Any, mask: Any, width: int, program: int) -> None:
        """One access. Raises LaunchEnded when there are more than this log has room for."""
        pointers = np.asarray(pointers)
        mask = np.broadcast_to(np.asarray(mask, dtype=bool), pointers.shape)
        active = pointers[mask]
        if not active.size:
            return
        self.count += pointers.size
        if self.count > MAX_LANES or len(self.rows) >= MAX_ACCESSES:
            raise LaunchEnded(
                "size",
                f"asks for more than {MAX_LANES} elements in all, too many to count one by one; choose smaller sizes",
            )
        area, _ = area_of(active, self.areas)
        if area is None:
            raise LaunchEnded("size", "reads or writes several tensors in one access, which cannot be drawn")
        offsets = (pointers - np.uint64(area.base)).view(np.int64)
        if (np.abs(offsets[mask]) >= 2**30).any():
            raise LaunchEnded("size", f"goes far outside {area.name}")
        shape = pointers.shape[:AXES] if pointers.ndim <= AXES else (pointers.size,)
        line = line_in(self.path) or 0
        self.rows.append((program, kind, area.number, line, width, *shape, *(1,) * (AXES - len(shape))))
        self.lanes.append(np.where(mask, offsets, OFF).astype(np.int32).reshape(-1))


class _Logged(NativeMemory):
    """The memory functions, each access written down before it happens."""

    def __init__(self, memory: Any, log: AccessLog, builder: Any) -> None:
        super().__init__(memory, builder)
        self._log = log

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._log.add(LOAD, pointers, mask, np.dtype(dtype).itemsize, self._program())
        return self._memory.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        self._log.add(STORE, pointers, mask, np.asarray(values).itemsize, self._program())
        return self._memory.store(pointers, values, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        self._log.add(ATOMIC, pointers, mask, np.asarray(values).itemsize, self._program())
        return self._memory.atomic_rmw(operation, pointers, values, mask, order)

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        self._log.add(ATOMIC, pointers, True, np.asarray(values).itemsize, self._program())
        return self._memory.atomic_cas(pointers, expected, values, order)
