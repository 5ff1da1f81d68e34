"""One load, store or atomic of a program, with the elements of the tensor that it reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.interpreter.areas import Area


@dataclass(slots=True)
class MemoryAccess:
    """kind: load, store or atomic; operation: which atomic, "" for others. pointers, mask: of its lanes; values: what they bring.

    elements: those of the tensor's buffer that are reached, several a lane where what is accessed is wider than they are. within: which
    of all that is accessed these are. before: one more than the program that wrote each last, 0 for none, negative where it added;
    see `Races`.
    """

    kind: str
    operation: str
    area: Area
    program: int
    pointers: np.ndarray
    mask: np.ndarray
    values: Any
    elements: np.ndarray
    within: np.ndarray
    before: np.ndarray
    width: int

    @property
    def brought(self) -> np.ndarray | None:
        """What a store of the tensor's own type brings to each element; None for any other access."""
        if self.kind != "store" or self.width != self.area.width:
            return None
        return self.of_lanes[self.within]

    @property
    def of_lanes(self) -> np.ndarray:
        """What each active lane brings."""
        return np.broadcast_to(self.values, self.pointers.shape)[self.mask]

    @property
    def of_other_programs(self) -> np.ndarray:
        """Elements that another program has written."""
        return (self.before != 0) & (np.abs(self.before) != self.program + 1)


def access_of(
    kind: str,
    area: Area,
    active: np.ndarray,
    program: int,
    pointers: np.ndarray,
    mask: np.ndarray,
    width: int,
    values: Any,
    operation: str,
) -> MemoryAccess:
    """active: the addresses of the lanes that the mask lets through, width: the bytes of each."""
    elements = (active - np.uint64(area.first)).view(np.int64).reshape(-1) // area.width
    if width > area.width:
        elements = (elements[:, None] + np.arange(width // area.width)).reshape(-1)
    within = (elements >= 0) & (elements < len(area.valid))
    elements = elements[within]
    if area.writer is None:
        area.writer = np.zeros(len(area.valid), dtype=np.int64)
    return MemoryAccess(
        kind, operation, area, program, pointers, mask, values, elements, within, area.writer[elements], width
    )
