"""Does what a program leaves depend on the order of its own threads?"""

from __future__ import annotations

import numpy as np

from grader.interpreter.differences import brings_another
from grader.interpreter.launch_findings import Findings
from grader.interpreter.memory_access import MemoryAccess

MOST_LANES, MOST_SHAPES = 1 << 24, 1 << 10
"""More than a tile has, and than a kernel has shapes of tiles."""


class Threads:
    """Follows which lane of what tile stored to an element of an output last, and which loaded it.

    Two accesses of a program to an element from other lanes, or in tiles of other shapes, with no barrier between: lanes are threads,
    and these do not wait for each other. What is loaded back may be what was there before the store; what is stored over another
    number, or over one that was just loaded, may come first.
    """

    def __init__(self, found: Findings) -> None:
        self.found = found
        self._barriers = 0
        self._program = -1
        self._shapes: dict[tuple[int, ...], int] = {}

    def barrier(self) -> None:
        """From here on every thread of a program finds what any of them has stored."""
        self._barriers += 1

    def follow(self, access: MemoryAccess) -> None:
        """An access to an output."""
        if access.program != self._program:
            self._program = access.program
            self._barriers += 1
        area, elements, lanes = access.area, access.elements, self._lanes(access)
        met = self._met(access, lanes)
        if met.any():
            self.found.place("thread", access.kind, area, int(elements[np.flatnonzero(met)[0]]), differs=True)
        if access.kind != "load":
            if area.lanes is None:
                area.lanes = np.full(len(area.valid), -1)
            area.lanes[elements] = lanes
            return
        if area.readers is None:
            area.readers = np.full(len(area.valid), -1)
        another = self._of_another_thread(area.readers[elements], lanes)
        # of several: no lane's
        area.readers[elements] = np.where(another, (self._barriers + 1) * MOST_SHAPES * MOST_LANES - 1, lanes)

    def _lanes(self, access: MemoryAccess) -> np.ndarray:
        """For each element the lane, with the shape of its tile and the number of barriers before."""
        shape = self._shapes.setdefault(access.mask.shape, len(self._shapes))
        active = np.flatnonzero(access.mask)
        lanes = np.repeat(active, len(access.within) // len(active))[access.within]
        return lanes + (self._barriers * MOST_SHAPES + shape % MOST_SHAPES) * MOST_LANES

    def _met(self, access: MemoryAccess, lanes: np.ndarray) -> np.ndarray:
        """Elements at which this access meets one of another thread whose order matters."""
        area, elements, kind = access.area, access.elements, access.kind
        met = np.zeros(elements.shape, dtype=bool)
        if area.lanes is not None:
            met |= self._of_another_thread(area.lanes[elements], lanes)
            met &= (access.before > 0) | (kind != "atomic")  # additions may come in any order
        if area.readers is not None and kind != "load":
            met |= self._of_another_thread(area.readers[elements], lanes)
        if met.any() and kind == "store":
            met &= brings_another(access)
        return met

    def _of_another_thread(self, known: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Which lanes are others than those that are known of the elements, from the same program and after the same barrier."""
        return (known != lanes) & (known // (MOST_SHAPES * MOST_LANES) == self._barriers)
