"""Is every tile of Y stored once, or once a slice of K, and whole?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from grader.diagnosis.ledger import tile_begins
from grader.diagnosis.ledger.pairs import Run, hull, places_in_output, stores_to_output
from grader.diagnosis.ledger.program_ids import map_reason
from grader.diagnosis.ledger.tape import Stored
from grader.diagnosis.ledger.tile_map import Tile, TileMap, store_tile, tile_map
from grader.labs.divergence import GRID, STORE, TILE, Divergence

MAX_NAMED = 3
GROUPS = (2, 4, 8, 16)
"""Rows of tiles that are walked together."""


def look(run: Run) -> list[Divergence]:
    """What the programs of the whole launch stored, recorded or not."""
    found = plain_stores_of_slices(run)
    if found:
        return [found]
    if begins := tile_begins.look(run):
        return [begins]
    tiles = tile_map(run)
    if tiles is None or (run.wrong.any() and not tiles.stored):
        return []
    again = {tile: who for tile, who in tiles.stored.items() if len(set(who)) > run.config.split_k}
    if not tiles.missing and not again:
        return []
    few = None if again else _short_walk(run, tiles) or _few_programs(run, tiles)
    return [few or _empty_rows(run, tiles) or _wrong_map(run, tiles, again)]


def _short_walk(run: Run, tiles: TileMap) -> Divergence | None:
    """Programs that walk over tiles and stop before the last: each tile that is stored is where it belongs."""
    begins = run.walks.get(tiles.line or 0)
    outside = any(i >= tiles.count[0] or j >= tiles.count[1] for i, j in (*tiles.stored, *tiles.meant.values()))
    if begins is None or not tiles.missing or outside or _masked_out(run) or _of_empty_rows(run, tiles):
        return None
    if reason := _long_strides(run, tiles) or _cut_off(run, tiles) or _ends_early(run, tiles):
        return Divergence("tiles_left_out", TILE, begins, _map_found(run, tiles, {}, {}), "each tile from one program", reason)
    return None


def _masked_out(run: Run) -> bool:
    """Whether a recorded program reaches a tile and stores nothing of it, as one behind the ends of Y."""
    stores = (store for program in run.tape.programs for store in stores_to_output(run, program))
    return any(store.active is not None and not store.active.any() for store in stores)


def _long_strides(run: Run, tiles: TileMap) -> str:
    """That programs go on by more tiles than there are programs, in an order of tiles that shows it; else ""."""
    programs = math.prod(run.grid)
    for number in _numberings(tiles.count):
        numbers = {program: [number(*tile) for tile in own] for program, own in tiles.by_program.items()}
        steps = {b - a for own in numbers.values() for a, b in itertools.pairwise(own)}
        if len(steps) == 1 and all(own[0] == program for program, own in numbers.items()) and (step := steps.pop()) > programs:
            return f"a program goes on by {step} tiles a turn, and there are {programs} programs: tiles in between are left out"
    return ""


def _numberings(count: Tile) -> Iterator[Callable[[int, int], int]]:
    """Orders in which tiles are counted: row by row, column by column, and column by column within groups of rows."""
    rows, columns = count
    yield lambda i, j: i * columns + j
    for group in (rows, *GROUPS):
        yield lambda i, j, group=group: (  # type: ignore[misc]
            i // group * group * columns + j * min(group, rows - i // group * group) + i % group)  # fmt: skip


def _ends_early(run: Run, tiles: TileMap) -> str:
    """That what is missing is the last along an axis, or the last of all in either order; else ""."""
    every = [(i, j) for i in range(tiles.count[0]) for j in range(tiles.count[1])]
    for order in (every, sorted(every, key=lambda tile: tile[::-1])):
        if set(order[len(order) - len(tiles.missing) :]) == set(tiles.missing):
            return "a program walks over several tiles, and that loop ends before the last tile, or goes on by too many at a time"
    return ""


def _few_programs(run: Run, tiles: TileMap) -> Divergence | None:
    """Fewer programs than tiles, each of which stores one."""
    slices, programs = run.config.split_k, math.prod(run.grid)
    needed = math.prod(tiles.count) * slices
    single = all(len(stores_to_output(run, program)) < 2 for program in run.tape.programs)
    if programs >= needed or not single or any(len(set(own)) > 1 for own in tiles.by_program.values()):
        return None
    kind = f"{tiles.count[0]} x {tiles.count[1]} tiles" + (f" in {slices} slices" if slices > 1 else "")
    return Divergence("grid_too_small", GRID, tiles.line, f"the grid has {programs} programs, and none of them stores "
                    f"{_listed(tiles.missing)} of Y", f"{needed} programs for {kind} of {tiles.size[0]} x {tiles.size[1]}",
                    "the grid has fewer programs than Y has tiles")  # fmt: skip


def plain_stores_of_slices(run: Run) -> Divergence | None:
    """Slices of K that overwrite each other's share of Y."""
    if run.config.split_k == 1:
        return None
    seen: dict[tuple[int, int], Stored] = {}
    for stored in run.tape.stores:
        if stored.tensor != run.lab.output or stored.op != "store":
            continue
        first = seen.setdefault((stored.lowest, stored.highest), stored)
        if first.program != stored.program:
            return Divergence("split_k_overwritten", STORE, stored.line,
                           f"programs {first.program} and {stored.program} store the same tile of Y, each its slice of K",
                           "tl.atomic_add, which adds the slices up", "a plain store keeps only the last slice")  # fmt: skip
    return None


def past_the_ends(run: Run) -> list[Divergence]:
    """Stores whose mask lets rows or columns through that Y does not have, or leaves out some that it has."""
    findings: list[Divergence] = []
    for program in run.tape.programs:
        for store in stores_to_output(run, program):
            tile = store_tile(run, store)
            if store.active is None or tile is None:
                continue
            m, n, _ = places_in_output(run, store)
            active = store.active.reshape(-1)
            for numbers, limit, letter, noun in ((m, run.sizes[0], "M", "row"), (n, run.sizes[1], "N", "column")):
                out = active & (numbers >= limit)
                if out.any():
                    findings.append(Divergence(
                        f"store_without_{letter.lower()}_mask", STORE, store.line,
                        f"{noun}s {int(numbers[out].min())}:{int(numbers[out].max()) + 1} of Y are stored, which has {letter} = {limit}",
                        f"a mask that ends at {letter}", f"the mask of the store lets {noun}s past {letter} through", program))
            left_out = ~active & (m >= 0) & (m < run.sizes[0]) & (n >= 0) & (n < run.sizes[1])
            # a tile that begins past the last column has the address of one in the next row, at no multiple of its size
            at = np.flatnonzero(left_out) if not m[0] % tile[0] and not n[0] % tile[1] else np.zeros(0, dtype=int)
            at = at[np.isnan(run.y[m[at], n[at]])]
            if len(at):
                noun, numbers = ("row", m[at]) if len(np.unique(m[at])) <= len(np.unique(n[at])) else ("column", n[at])
                findings.append(Divergence(
                    "store_mask_too_short", STORE, store.line,
                    f"{noun} {hull(numbers)} of Y is left out, and nobody stores it",
                    f"a mask that lets every {noun} of Y through", "the mask of the store ends too early", program,
                ))  # fmt: skip
    return findings[:2]


def _listed(tiles: list[Tile]) -> str:
    words = ", ".join(str(tile) for tile in tiles[:MAX_NAMED])
    return f"tile{'s' if len(tiles) > 1 else ''} {words}" + (", ..." if len(tiles) > MAX_NAMED else "")


def _of_empty_rows(run: Run, tiles: TileMap) -> bool:
    """Whether what is missing belongs to block rows without blocks, and to no other."""
    if run.stages.needed is None or not tiles.missing:
        return False
    need = np.asarray(run.stages.needed(run.problem)).any(axis=1).reshape(-1)
    columns = {j for _, j in tiles.missing}
    return bool(need.any()) and not any(bool(np.any(need[j * tiles.size[1] : (j + 1) * tiles.size[1]])) for j in columns)


def _empty_rows(run: Run, tiles: TileMap) -> Divergence | None:
    if not _of_empty_rows(run, tiles):
        return None
    j = min(j for _, j in tiles.missing)
    return Divergence("empty_row_unwritten", STORE, tiles.line,
                   f"nobody stores Y[..., {j * tiles.size[1]}:{(j + 1) * tiles.size[1]}], whose block row has no blocks",
                   "zeros there", "an empty block row gives zeros, and they have to be stored like any others")  # fmt: skip


def _wrong_map(run: Run, tiles: TileMap, again: dict[Tile, list[int]]) -> Divergence:
    outside = {p: tile for p, tile in tiles.meant.items() if tile[0] >= tiles.count[0] or tile[1] >= tiles.count[1]}
    found, expected = _map_found(run, tiles, again, outside), "each tile from one program"
    if not again and not outside:
        if (idle := _idle(run, tiles)) is not None:
            return Divergence(
                "tile_map", TILE, tiles.line, f"{found}: program {idle} ends without a store", expected,
                "some programs end, or pass their store by, before they have stored anything", idle,
            )  # fmt: skip
        if cut := _cut_off(run, tiles):
            return Divergence("tiles_left_out", TILE, tiles.line, found, expected, cut)
    if masked := _masked(run, tiles, found, expected):
        return masked
    name, line, reason = map_reason(run, tiles)
    return Divergence(name, TILE, line, found, expected, reason)


def _masked(run: Run, tiles: TileMap, found: str, expected: str) -> Divergence | None:
    """Tiles that a program comes to, and that the mask of its store leaves out."""
    for program, tile in tiles.meant.items():
        for store in stores_to_output(run, program) if program not in tiles.by_program else []:
            if tile[0] < tiles.count[0] and tile[1] < tiles.count[1] and store.active is not None and not store.active.any():
                return Divergence(
                    "store_mask_too_short", TILE, store.line,
                    f"{found}: program {program} comes to tile {tile}, and the mask of its store leaves all of it out", expected,
                    "the mask of the store ends too early", program,
                )  # fmt: skip
    return None


def _map_found(run: Run, tiles: TileMap, again: dict[Tile, list[int]], outside: dict[int, Tile]) -> str:
    missing = f"nobody stores {_listed(tiles.missing)}" if tiles.missing else ""
    if again:
        return _stored_again(run, again) + (f", and {missing}" if missing else "")
    if outside:
        program, tile = next(iter(outside.items()))
        return f"{missing}, and program {program} is after tile {tile}, where Y has {tiles.count[0]} x {tiles.count[1]}"
    return missing


def _idle(run: Run, tiles: TileMap) -> int | None:
    """A program that stores nothing, where such ones are why tiles are missing."""
    if len(tiles.by_program) + len(tiles.missing) > math.prod(run.grid):
        return None
    return next((program for program in run.tape.programs if not stores_to_output(run, program)), None)


def _stored_again(run: Run, again: dict[Tile, list[int]]) -> str:
    tile, who = next(iter(again.items()))
    names = sorted(set(who))
    if len(names) > 2 and len(names) == math.prod(run.grid):
        return f"every program stores tile {tile} of Y"
    return f"programs {', '.join(str(p) for p in names[:3])}{', ...' if len(names) > 3 else ''} store tile {tile} of Y"


def _cut_off(run: Run, tiles: TileMap) -> str:
    """That the last row, or column, of tiles is left out, and nothing else, by programs that walk over several tiles; else ""."""
    if all(len(set(own)) == 1 for own in tiles.by_program.values()) and math.prod(run.grid) >= math.prod(tiles.count):
        return ""
    missing = set(tiles.missing)
    for axis, noun in ((0, "row"), (1, "column")):
        last = tiles.count[axis] - 1
        if last and missing == {(i, j) for i in range(tiles.count[0]) for j in range(tiles.count[1]) if (i, j)[axis] == last}:
            partial = run.sizes[axis] % tiles.size[axis]
            return f"the last{', partial' if partial else ''} {noun} of tiles is left out: " + (
                f"the number of {noun}s of tiles is rounded down, or their loop ends too early" if partial else
                f"the loop over {noun}s of tiles ends too early")  # fmt: skip
    return ""
