"""Which program stores which tile of Y?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from grader.diagnosis.ledger.pairs import Run, places_in_output, store_axes, stores_to_output
from grader.diagnosis.ledger.tape import Node

Tile = tuple[int, int]


@dataclass(frozen=True)
class TileMap:
    """Tiles of `size` elements, `count` of them along M and N, and who stored each.

    meant: the one tile that a recorded program addresses, stored or masked out.
    """

    size: Tile
    count: Tile
    stored: dict[Tile, list[int]]
    by_program: dict[int, list[Tile]]
    meant: dict[int, Tile]
    line: int | None

    @property
    def missing(self) -> list[Tile]:
        """Tiles that no program stores, or addresses and masks out."""
        addressed = {*self.stored, *self.meant.values()}
        return [(i, j) for i in range(self.count[0]) for j in range(self.count[1]) if (i, j) not in addressed]


def tile_map(run: Run) -> TileMap | None:
    """None where stores are not whole tiles at multiples of their size."""
    size = _tile_size(run)
    y = run.problem.tensors[run.lab.output]
    along_m, along_n = (int(stride) for stride in y.stride())
    if size is None or along_m < along_n:
        return None
    stored: dict[Tile, list[int]] = defaultdict(list)
    by_program: dict[int, list[Tile]] = defaultdict(list)
    line = None
    for one in run.tape.stores:
        if one.tensor != run.lab.output or one.lowest < 0:
            continue
        m, n = one.lowest // along_m, one.lowest % along_m // along_n
        behind = m % size[0]  # a tile that begins behind the end of its row has the address of one in a later row
        m, n = m - behind, n + behind * along_m // along_n
        if n % size[1] or (behind and n < run.sizes[1]):
            return None
        tile = (m // size[0], n // size[1])
        stored[tile].append(one.program)
        by_program[one.program].append(tile)
        line = one.line
    if not stored:
        return None
    M, N, _ = run.sizes
    return TileMap(size, (-(-M // size[0]), -(-N // size[1])), dict(stored), dict(by_program), _meant(run, size), line)


def _meant(run: Run, size: Tile) -> dict[int, Tile]:
    found = {}
    along_m, along_n = (int(stride) for stride in run.problem.tensors[run.lab.output].stride())
    for program in run.tape.programs:
        stores = stores_to_output(run, program)
        if len(stores) == 1:
            m, n, _ = places_in_output(run, stores[0])
            if not len(m):
                continue
            row, column = int(m[0]), int(n[0])
            behind = 0 if stores[0].active is None or stores[0].active.any() else row % size[0]
            row, column = row - behind, column + behind * along_m // along_n  # see tile_map; what is masked out is not in a later row
            if behind <= size[0] // 2 and not row % size[0] and not column % size[1]:  # else it is before its row, not behind it
                found[program] = (row // size[0], column // size[1])
    return found


def _tile_size(run: Run) -> Tile | None:
    for program in run.tape.programs:
        for store in stores_to_output(run, program):
            return store_tile(run, store)
    return None


def store_tile(run: Run, store: Node) -> Tile | None:
    """Rows and columns of a store, from its shape and the steps between its lanes' addresses."""
    strides = tuple(int(stride) for stride in run.problem.tensors[run.lab.output].stride())
    axes = store_axes(store, (strides[0], strides[1]))
    if axes is None:
        return None
    return tuple(1 if axis is None else int(store.shape[axis]) for axis in axes)  # type: ignore[return-value]
