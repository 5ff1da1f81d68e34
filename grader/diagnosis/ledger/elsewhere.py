"""Are tiles that the programs share out rightly when they multiply stored in the places of others?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, pairs_of, places_in_output
from grader.diagnosis.ledger.tile_map import Tile, store_tile
from grader.labs.divergence import TILE, Divergence


@dataclass(frozen=True)
class _Moved:
    """A tile of Y, `size` elements large: the one that the operands of a store belong to, and the one that it goes to."""

    pairs: Pairs
    size: Tile
    meant: Tile
    stored: Tile

    def place(self, tile: Tile) -> str:
        return "Y[" + ", ".join(f"{at * wide}:{(at + 1) * wide}" for at, wide in zip(tile, self.size, strict=True)) + "]"


def look(run: Run, followed: Sequence[Pairs], *, amiss: bool) -> Divergence | None:
    """amiss: whether the tiles that are stored are not those of Y. Where they are, only an exchange of rows and columns is told."""
    found = [moved for pairs in followed if (moved := _moved(run, pairs))]
    one = next((one for one in found if one.meant != one.stored), None)
    if one is None or len({one.size for one in found}) > 1:
        return None
    count = (-(-run.sizes[0] // one.size[0]), -(-run.sizes[1] // one.size[1]))
    if not _shared_out(run, found, count):
        return None
    name, reason = _way(found, count)
    if not amiss and name != "program_ids_swapped":
        return None
    return Divergence(
        name, TILE, one.pairs.store.line, f"the product that belongs to {one.place(one.meant)} is stored in {one.place(one.stored)}",
        "the rows and columns of the product", reason, one.pairs.program,
    )  # fmt: skip


def _shared_out(run: Run, found: Sequence[_Moved], count: Tile) -> bool:
    """Whether several programs multiply tiles of Y, each its own, or each its slice of one."""
    meant = {one.meant for one in found}
    inside = all(row < count[0] and column < count[1] for row, column in meant)
    return inside and 1 < len(found) <= len(meant) * run.config.split_k


def moved_back(run: Run, pairs: Pairs) -> Pairs:
    """The pairs of a tile for the elements of Y that they were meant for, as far as Y has them; as they are where these are no tiles."""
    moved = _moved(run, pairs)
    if moved is None:
        return pairs
    by = [(own - used) * wide for own, used, wide in zip(moved.meant, moved.stored, moved.size, strict=True)]
    there = (pairs.m + by[0] < run.sizes[0]) & (pairs.n + by[1] < run.sizes[1])
    if not there.all():
        pairs = pairs_of(run, pairs.program, pairs.store, pairs.flow.lanes[there])
    return replace(pairs, m=pairs.m + by[0], n=pairs.n + by[1])


def _moved(run: Run, pairs: Pairs) -> _Moved | None:
    """None where these are no tiles, or nothing is multiplied."""
    both, size = pairs.left.live & pairs.right.live & pairs.alive, store_tile(run, pairs.store)
    each = np.flatnonzero(both.any(axis=1))
    if size is None or not len(each):
        return None
    places, first = places_in_output(run, pairs.store), both.argmax(axis=1)[each]
    found = []
    for axis, (own, side) in enumerate(((pairs.m, pairs.left), (pairs.n, pairs.right))):
        rows = side.row[each, first]
        begin, shift = int(places[axis][0]), np.unique(own[each] - rows)
        if len(shift) != 1 or begin % size[axis] or int(shift[0]) % size[axis] or ((side.row[each] != rows[:, None]) & both[each]).any():
            return None
        found.append(((begin - int(shift[0])) // size[axis], begin // size[axis]))
    return _Moved(pairs, size, (found[0][0], found[1][0]), (found[0][1], found[1][1]))


def _way(found: Sequence[_Moved], count: Tile) -> tuple[str, str]:
    """The mistake's name, and how the tiles that are stored follow from those that are meant."""
    if all(one.stored == one.meant[::-1] for one in found):
        return "program_ids_swapped", "the numbers of the row tile and of the column tile are exchanged in the addresses of the store"
    for axis, (noun, other) in enumerate((("row", "column"), ("column", "row"))):
        if all(one.stored[axis] == one.meant[axis] for one in found):
            continue
        name = f"{noun}_tile_offset_forgotten"
        if count[1 - axis] > 1 and all(one.stored[axis] == one.meant[1 - axis] for one in found):
            return name, f"the {noun}s of the store follow the number of the {other} tile"
        if len({one.stored[axis] for one in found}) == 1:
            return name, f"the {noun}s that are stored do not depend on the program"
    return "tile_map", "the tiles that are stored are not those that were multiplied"
