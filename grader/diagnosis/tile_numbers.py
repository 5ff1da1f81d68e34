"""Which number, were it another one, would let the programs of a launch store each tile of Y once.

What a store's address was made of in one program is computed again for all of them, with another value for one node at a time. Of a node
that is the same in several programs the other value has to do for all of these: the height of a group of tiles, say, and not each of the
numbers that are made with it.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grader.diagnosis.definition import address_nodes, made_with
from grader.diagnosis.provenance import FAR, Array, Untraceable
from grader.diagnosis.replaying import Recomputed, sites
from grader.diagnosis.stores import recorded_stores
from grader.diagnosis.tape import Node
from grader.model import place_in

if TYPE_CHECKING:
    from grader.diagnosis.relation import Run

MOST_VALUES, MOST_ASKED = 1 << 10, 1 << 18
"""Other values that are tried, and with how many programs at once."""
FEWEST, MOST_NODES = 3, 256
"""Programs, of which fewer tell nothing; and nodes behind an address, of which more are a loop's."""


@dataclass(frozen=True)
class Tiling:
    """The tiles of Y: size, in elements, and count along M and N."""

    size: tuple[int, int]
    count: tuple[int, int]

    def numbers(self, run: Run, offsets: Array) -> Array:
        """The number of the tile that begins at each element of Y; -1 for none."""
        m, inside = np.divmod(offsets, run.strides[0])
        n, aligned = np.divmod(inside, run.strides[1])
        (i, row), (j, column) = np.divmod(m, self.size[0]), np.divmod(n, self.size[1])
        whole = (row == 0) & (column == 0) & (aligned == 0) & (inside >= 0) & (i >= 0) & (i < self.count[0])
        found: Array = np.where(whole & (j < self.count[1]), i * self.count[1] + j, -1)
        return found


def line_of_tile(run: Run, tiling: Tiling) -> tuple[int | None, bool]:
    """The line of that number, of several the one that fewest values of have to be others, and whether there is one: else that of the last
    one that programs share out the tiles by, and None where more than address arithmetic is behind the stores.

    Not split: each kind of number is tried only where none of the kinds before it would do.
    """
    try:
        replay = _Stores(run, tiling, run.grid)
        tiles = replay.tiles()[0]
        owns = [(site, replay.own(site)) for site in replay.sites]
    except Untraceable:
        return None, False
    stores, need = len(tiles), run.config.split_k
    often = np.bincount(tiles[tiles >= 0], minlength=math.prod(tiling.count))
    bad = (tiles < 0) | (often[tiles] > need)
    if not FEWEST <= stores <= MOST_ASKED // FEWEST or not replay.is_as_recorded(tiles):
        return None, False
    values = np.arange(min(MOST_VALUES, MOST_ASKED // stores, 2 + max(stores, len(often))))[:, None]
    fewest, line = stores, None

    def mends(site: Sequence[Node], own: Array) -> bool:
        tried, right = replay.tiles(site, values), tiles[~np.isin(own, own[bad])]
        rest = np.bincount(right[right >= 0], minlength=len(often))
        return _cover([tried[:, own == one] for one in np.unique(own[bad])], rest, need)

    for counts in (False, True):  # a number of tiles along Y is the right one, if another number would do
        for site, own in owns if line is None else ():
            tiles_along = "div" in site[0].op and (own == own[0]).all() and own[0] in tiling.count
            if len(changed := np.unique(own[bad])) < fewest and tiles_along is counts and mends(site, own):
                fewest, line = len(changed), site[0].line
    # else the last one that could be another number in each program
    each, shared = np.arange(stores), [site for site, _ in owns if site[0].number in replay.of_programs]
    line = line or next((site[0].line for site in shared[::-1] if mends(site, each)), None)
    quotients = (site[0].line for site in shared[::-1] if "div" in site[0].op or "rem" in site[0].op)
    return line or next(quotients, None), line is not None


def beyond_grid(run: Run, tiling: Tiling) -> str:
    """The first program that the grid does not have and that would store what is missing, if those like it would store all that is, and
    nothing else; "" where none would, or where one of the grid has a tile beyond Y, which may be what should lie there."""
    grid, missing = np.array(run.grid), set(range(math.prod(tiling.count)))
    with contextlib.suppress(Untraceable):
        inside = _Stores(run, tiling, run.grid)
        alike = all(made.all() for made in inside.made)
        if not inside.is_as_recorded(tiles := inside.tiles()[0]) or (tiles < 0).any() or not alike:
            return ""
        for axis in range(3):
            more = max(tiling.count) if (grid > 1).sum() > 1 else math.prod(tiling.count)
            x, y, z = (grid + more * (np.arange(3) == axis)).tolist()
            every = _Stores(run, tiling, (x, y, z)).tiles()[0].reshape(-1, x, y, z)
            would = every.take(range(grid[axis], grid[axis] + more), axis + 1)
            owed = np.argwhere(would >= 0)
            if len(owed) and Counter(would[would >= 0].tolist()) == Counter(missing - set(tiles.tolist())):
                first = owed[:, 1:].min(axis=0) + grid * (np.arange(3) == axis)
                shape = np.maximum(grid, first + 1)
                return place_in(tuple(shape.tolist()), int(np.ravel_multi_index(tuple(first), tuple(shape))))
    return ""


def _cover(groups: Sequence[Array], often: Array, need: int) -> bool:
    """Whether a value can be chosen for each group of programs so that every tile is stored as often as needed. groups: their tiles,
    [values, programs] each; often: how often the other programs store each tile."""
    for tried in groups:
        whole = (np.bincount(tiles, minlength=len(often)) for tiles in tried if (tiles >= 0).all())
        more = next((more for more in whole if (often + more <= need).all()), None)
        if more is None:
            return False
        often = often + more
    return bool((often == need).all())


class _Stores:
    """The addresses of the first lanes of the stores that a recorded program makes to Y one after another, for all programs of a grid.

    sites: the integers that they are made of, each the nodes that one operation made for each of the stores. Raises Untraceable.
    """

    def __init__(self, run: Run, tiling: Tiling, grid: tuple[int, int, int]) -> None:
        programs, by_program = np.arange(math.prod(grid)), defaultdict[int, list[Node]](list)
        for program, store in recorded_stores(run):
            by_program[program].append(store)
        self.run, self.tiling, self.grid = run, tiling, grid
        self.stores = max(by_program.values(), key=len, default=[])
        often = np.bincount([one.program for one in run.stores], minlength=len(programs))
        alike = len(self.stores) == 1 or often[: math.prod(run.grid)].min() >= len(self.stores)
        self.made = [(often > place) | alike for place in range(len(self.stores))]
        self.ids = np.array(np.unravel_index(programs, grid))
        made = [address_nodes(run, store) for store in self.stores]
        asks = any(node.op == "get_num_programs" for nodes in made for node in nodes)
        if max(map(len, made), default=0) > MOST_NODES or (asks and grid != run.grid):
            raise Untraceable("get_num_programs")
        self.sites, given = sites(run, made), ("get_program_id", "loop_variable")
        self.of_programs = {node.number for nodes in made for node in made_with(nodes, lambda node: node.op in given)}

    def tiles(self, site: Sequence[Node] = (), values: Array | None = None) -> Array:
        """[values, stores]: the tiles, with other values of a site, [values, 1]."""
        replaced = {node.number: values for node in site if values is not None}
        return self.tiling.numbers(self.run, self._of_all([store.inputs[1] for store in self.stores], replaced))

    def own(self, site: Sequence[Node]) -> Array:
        """[stores]: which values of a site are one number: those of one node that are the same; the last one's where a store has none."""
        numbers = [node.number for node in site] + [site[-1].number] * (len(self.stores) - len(site))
        times = [np.full(made.sum(), number - numbers[0]) for number, made in zip(numbers, self.made, strict=True)]
        found: Array = self._of_all(numbers)[0] + FAR * np.concatenate(times)
        return found

    def is_as_recorded(self, tiles: Array) -> bool:
        """Whether these are the tiles that each program stored."""
        stored, mine = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        recorded = self.tiling.numbers(self.run, np.array([one.lowest for one in self.run.stores]))
        for one, tile in zip(self.run.stores, recorded.tolist(), strict=True):
            stored[one.program].add(tile)
        programs = np.concatenate([np.flatnonzero(made) for made in self.made])
        for program, tile in zip(programs[tiles >= 0].tolist(), tiles[tiles >= 0].tolist(), strict=True):
            mine[program].add(tile)
        return stored == mine

    def _of_all(self, numbers: Sequence[int], replaced: Mapping[int, Array] | None = None) -> Array:
        """The first lanes of a node for each of the stores, of those programs that make it."""
        replay, whole = Recomputed(self.run, self.ids, replaced), np.zeros((1, self.ids.shape[1]), dtype=np.int64)
        parts = [(replay.of(number) + whole)[:, made] for number, made in zip(numbers, self.made, strict=True)]
        values = max(map(len, parts))
        return np.concatenate([np.broadcast_to(part, (values, part.shape[1])) for part in parts], axis=1)
