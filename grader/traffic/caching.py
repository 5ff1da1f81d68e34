"""How many bytes miss in L2, by the order in which the tiles of Y are made: a model, not a measurement.

The model: programs run in waves of `resident` programs, in their order; the programs of a wave run in lockstep, so each makes its
first access, then each its second. L2 is one cache of 32-byte sectors that drops what was used longest ago. Real programs drift
apart, start when another ends, and L2 has slices and policies of its own; what is left is the effect of order.

An L2 is large and a case that can be interpreted is small, so the model can lengthen K: with repeats = 32 each program makes
its accesses 32 times, each time to new bytes of the matrices and the same bytes of vectors, and stores at the end.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grader.traffic.accesses import Access
from grader.traffic.counting import ProgramTraffic

SECTOR = 32
GROUP = 8


@dataclass(frozen=True)
class Order:
    """In which order tiles are made: by ascending `place` of a tile's row and column; None as they were launched."""

    name: str
    place: Callable[[int, int], tuple[int, ...]] | None = None


AS_LAUNCHED = Order("as launched")
ORDERS = (
    AS_LAUNCHED,
    Order("row by row", lambda row, column: (row, column)),
    Order("column by column", lambda row, column: (column, row)),
    Order(f"{GROUP} rows at a time", lambda row, column: (row // GROUP, column, row)),
)


@dataclass(frozen=True)
class Cache:
    """An L2 of `size` bytes, and how many programs run at a time: one on each multiprocessor of a GPU."""

    name: str
    resident: int
    size: int


GPUS = {
    "H100": Cache("H100", 132, 50 << 20),
    "A100": Cache("A100", 108, 40 << 20),
    "L4": Cache("L4", 58, 48 << 20),
    "T4": Cache("T4", 40, 4 << 20),
}
"""Source: NVIDIA's architecture whitepapers (Hopper, Ampere, Ada, Turing)."""


@dataclass(frozen=True)
class Missed:
    """Bytes of each tensor that loads and atomics fetched because they were not in L2.

    distinct: bytes that must be fetched in any order, each sector once.
    """

    fetched: Mapping[str, int]
    distinct: int

    @property
    def total(self) -> int:
        """Bytes fetched, of all tensors."""
        return sum(self.fetched.values())


def in_order(programs: Sequence[ProgramTraffic], order: Order) -> list[int]:
    """The programs' numbers in another order of their tiles, slice after slice; programs without a tile come last."""
    if order.place is None:
        return [program.number for program in programs]
    places = tiles_of(programs)
    found = [
        ((0, program.slice, *order.place(*places[program.number])), program.number)
        if program.number in places
        else ((1,), program.number)
        for program in programs
    ]
    return [number for _, number in sorted(found)]


def tiles_of(programs: Sequence[ProgramTraffic]) -> dict[int, tuple[int, int]]:
    """Row and column of each program's tile among the tiles of Y, by the program's number."""
    boxes = {program.number: program.tile.box for program in programs if program.tile is not None}
    rows, columns = (sorted({box[axis][0] for box in boxes.values()}) for axis in (0, 1))
    return {number: (rows.index(box[0][0]), columns.index(box[1][0])) for number, box in boxes.items()}


class CacheReplay:
    """The accesses of a launch, ready to be sent through L2 in any order.

    Sectors that are always used together (those of a tile of X, say) are one piece, so that there is less to keep.
    """

    def __init__(
        self, accesses: Sequence[Access], programs: Sequence[ProgramTraffic], vectors: Collection[str] = ()
    ) -> None:
        """vectors: the tensors that do not grow with K."""
        self._programs, self._vectors = programs, set(vectors)
        self._names = sorted({access.tensor for access in accesses})
        together = _together(accesses)
        self._steps: dict[int, list[tuple[str, str, list[tuple[int, int]]]]] = {}
        for access, pieces in zip(accesses, together, strict=True):
            self._steps.setdefault(access.program, []).append((access.kind, access.tensor, pieces))

    def missed(self, cache: Cache, order: Order = AS_LAUNCHED, repeats: int = 1) -> Missed:
        """What misses in an L2 that is empty at first."""
        numbers = [number for number in in_order(self._programs, order) if number in self._steps]
        held = _Held(cache.size)
        fetched: Counter[str] = Counter(dict.fromkeys(self._names, 0))
        needed: dict[tuple[int, int], int] = {}
        for start in range(0, len(numbers), cache.resident):
            wave = [self._steps[number] for number in numbers[start : start + cache.resident]]
            for repeat in range(repeats):
                for step in range(max(len(steps) for steps in wave)):
                    for steps in wave:
                        if step >= len(steps):
                            continue
                        kind, tensor, pieces = steps[step]
                        if kind != "load" and repeat < repeats - 1:
                            continue
                        at = 0 if tensor in self._vectors or kind != "load" else repeat
                        for piece, size in pieces:
                            new = held.use((piece, at), size)
                            if kind != "store":
                                fetched[tensor] += new
                                needed[piece, at] = size
        return Missed(dict(fetched), sum(needed.values()))


class _Held:
    """What is in L2: pieces with their sizes in bytes, the one used longest ago first."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._pieces: OrderedDict[tuple[int, int], int] = OrderedDict()

    def use(self, piece: tuple[int, int], size: int) -> int:
        """How many bytes of the piece were not there."""
        if piece in self._pieces:
            self._pieces.move_to_end(piece)
            return 0
        self._pieces[piece] = size
        self._left -= size
        while self._left < 0:
            self._left += self._pieces.popitem(last=False)[1]
        return size


def _together(accesses: Sequence[Access]) -> list[list[tuple[int, int]]]:
    """For each access its pieces, as number and bytes. Two sectors are of one piece when the same accesses use them."""
    random = np.random.default_rng(0)
    marks = random.integers(1, 2**63, size=len(accesses), dtype=np.int64)
    used, signatures = [], {name: np.zeros(0, dtype=np.int64) for name in {access.tensor for access in accesses}}
    for access, mark in zip(accesses, marks, strict=True):
        first = access.active.astype(np.int64)
        sectors = np.unique(np.concatenate((first // SECTOR, (first + access.width - 1) // SECTOR)))
        known = signatures[access.tensor]
        if len(sectors) and sectors[-1] >= len(known):
            known = np.concatenate((known, np.zeros(2 * int(sectors[-1]) + 1 - len(known), dtype=np.int64)))
            signatures[access.tensor] = known
        known[sectors] ^= mark
        used.append(sectors)
    pieces = []
    for access, sectors in zip(accesses, used, strict=True):
        numbers, counts = np.unique(signatures[access.tensor][sectors], return_counts=True)
        pieces.append([(int(number), int(count) * SECTOR) for number, count in zip(numbers, counts, strict=True)])
    return pieces
