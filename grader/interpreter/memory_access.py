"""One load, store or atomic of a program, with the elements of the tensor that it reaches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader.interpreter.areas import Area


@dataclass(slots=True)
class MemoryAccess:
    """kind: load, store or atomic; operation: which atomic, "" for others. pointers, mask: of its lanes; width: the bytes of each;
    values: what they bring. active: the addresses of the lanes that the mask lets through.

    What `reach` adds: area, the tensor. elements: those of its buffer that are reached, several a lane where what is accessed is wider
    than they are. within: which of all that is accessed these are. before: one more than the program that wrote each last, 0 for none,
    negative where it added; see `Races`. shared: the lanes of an atomic whose element another program stored or added to before; None:
    none.
    """

    kind: str
    program: int
    pointers: np.ndarray
    mask: np.ndarray
    width: int
    values: Any = None
    operation: str = ""
    shared: np.ndarray | None = None
    active: np.ndarray = field(init=False)
    area: Area = field(init=False)
    elements: np.ndarray = field(init=False)
    within: np.ndarray = field(init=False)
    before: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.pointers = np.asarray(self.pointers)
        self.mask = np.broadcast_to(np.asarray(self.mask, dtype=bool), self.pointers.shape)
        self.active = self.pointers if self.mask.all() else self.pointers[self.mask]

    def reach(self, area: Area) -> None:
        """All active lanes lie in the tensor's buffer."""
        self.area, elements = area, area.elements(self.active).reshape(-1)
        if self.width > area.width:
            elements = (elements[:, None] + np.arange(self.width // area.width)).reshape(-1)
        self.within = (elements >= 0) & (elements < len(area.valid))
        self.elements = elements[self.within]
        if area.writer is None:
            area.writer = np.zeros(len(area.valid), dtype=np.int64)
        self.before = area.writer[self.elements]

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


def is_misaligned(addresses: np.ndarray, width: int) -> bool:
    """Whether a GPU would end the kernel at one of these accesses, each of `width` bytes: their addresses have to be multiples of it."""
    return width > 1 and bool((addresses & np.uint64(width - 1)).any())
