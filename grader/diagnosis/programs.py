"""Columns programs and store: which program stores which tile of Y, and do the sums land where their operands belong?"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from grader.diagnosis.definition import is_program_id, line_of_idle, numbers_behind
from grader.diagnosis.fit import fit, named
from grader.diagnosis.looping import bounds, number_of
from grader.diagnosis.mending import line_of_lack, line_of_mask
from grader.diagnosis.observation import Observation, span
from grader.diagnosis.provenance import Array, Untraceable
from grader.diagnosis.relation import Products, Run, Side, load_of, products_of, replaced, sample, sample_of_tile
from grader.diagnosis.reordering import line_of_moved
from grader.diagnosis.statements import axes_asked_for
from grader.diagnosis.stores import first_store, places_in_output, recorded_stores, store_axes
from grader.diagnosis.tape import Node
from grader.diagnosis.tile_numbers import Tiling, beyond_grid, line_of_tile
from grader.model import place_in

Tile = tuple[int, int]


@dataclass(frozen=True)
class TileMap:
    """Tiles of `size` elements, `count` of them along M and N, and the tiles that each program stores, all programs considered."""

    size: Tile
    count: Tile
    by_program: dict[int, list[Tile]]
    store: Node

    @property
    def tiling(self) -> Tiling:
        return Tiling(self.size, self.count)

    @property
    def stored(self) -> dict[Tile, list[int]]:
        """The programs that store each tile."""
        found: dict[Tile, list[int]] = defaultdict(list)
        for program, tiles in self.by_program.items():
            for tile in tiles:
                found[tile].append(program)
        return found


def check_programs(run: Run) -> list[Observation]:
    """Is every element of Y stored, and by one program?"""
    if not run.ended or not run.tape.all_stores:
        return []
    if not run.stores:
        return [_none(run)]
    tiles = tile_map(run)
    unwritten = _unwritten(run, tiles)
    if unwritten.any() and (unread := _unread_axis(run)):
        return [unread]
    if past := _past_the_ends(run, unwritten):
        return [past]
    if unwritten.any():
        return [_masked(run, unwritten) or _missing(run, tiles, unwritten)]
    return [] if tiles is None else _shared(run, tiles)


def _unread_axis(run: Run) -> Observation | None:
    """An axis of the grid along which the kernel never reads a program's number."""
    asks = list(filter(is_program_id, run.tape.nodes))
    axes = axes_asked_for(run.text)
    axis = next((axis for axis, size in enumerate(run.grid) if size > 1 and axis not in axes), None)
    if axis is None or not asks or None in axes:
        return None
    text = f"the grid has {run.grid[axis]} programs along axis {axis}, and the kernel never reads tl.program_id({axis})"
    text += ", so they all compute the same tile"
    return Observation("programs", "grid", asks[0].line, text)


def _shared(run: Run, tiles: TileMap) -> list[Observation]:
    """A tile that is wrong and that several programs store; that slices add to it is right."""
    shared = {tile: list(dict.fromkeys(programs)) for tile, programs in tiles.stored.items() if len(set(programs)) > 1}
    wrong = {tile: who for tile, who in shared.items() if run.wrong[_corner(tile, tiles)].any()}
    if run.config.split_k > 1:
        wrong = {tile: who for tile, who in wrong.items() if "store" in _ways(run, tile, tiles, who)}
    if not wrong:
        return []
    tile, who = min(wrong.items())
    store = "store" in _ways(run, tile, tiles, who)
    names = ", ".join(place_in(run.grid, one) for one in who[:5]) + (", ..." if len(who) > 5 else "")
    text = f"programs {names} all {'store' if store else 'add to'} {_area(run, tile, tiles)}"
    if run.config.split_k > 1:
        return [Observation("programs", "shared", tiles.store.line, text, "slices that are added, with tl.atomic_add")]
    expected = f"one program for each of the {tiles.count[0]} x {tiles.count[1]} tiles of Y"
    line, tried = _tried_line(run, tiles)
    return [Observation("programs", "shared", line or tiles.store.line, text, expected, hedged=not tried)]


def _ways(run: Run, tile: Tile, tiles: TileMap, who: Sequence[int]) -> set[str]:
    """How some programs write to a tile, by where it begins; as the first recorded store does where that tells nothing."""
    begin = sum(at * size * step for at, size, step in zip(tile, tiles.size, run.strides, strict=True))
    return {one.op for one in run.stores if one.program in who and one.lowest == begin} or {tiles.store.op}


def _none(run: Run) -> Observation:
    """That nothing is stored, and where the first tile that is masked out would begin."""
    store = first_store(run)
    text, line = "no program stores anything to Y", None
    if store is not None:
        m, n, _ = places_in_output(run, store)
        first = place_in(run.grid, next(iter(run.tape.programs)))
        text += f": the tile of program {first} begins at row {m[0]}, column {n[0]}, and its mask leaves it out"
        lanes = np.arange(store.size)
        line = line_of_lack(run, store, lanes, np.full(store.size, -int(store.offsets.reshape(-1)[0])), ())
    line = line or line_of_idle(run)
    return Observation("programs", "none", line, text, "each element of Y stored once", hedged=True)


def _corner(tile: Tile, tiles: TileMap) -> tuple[slice, slice]:
    rows, columns = (slice(at * size, (at + 1) * size) for at, size in zip(tile, tiles.size, strict=True))
    return rows, columns


def _area(run: Run, tile: Tile, tiles: TileMap) -> str:
    ends = [min((at + 1) * size, whole) for at, size, whole in zip(tile, tiles.size, run.sizes, strict=False)]
    return f"Y[{tile[0] * tiles.size[0]}:{ends[0]}, {tile[1] * tiles.size[1]}:{ends[1]}]"


def _unwritten(run: Run, tiles: TileMap | None) -> Array:
    """bool [M, N]: elements that no program stored. Y that arrives zeroed does not show it, so there the tiles tell."""
    if run.config.split_k == 1:
        found: Array = np.isnan(run.y) & run.wrong
        inside = np.zeros_like(found)
        if tiles is not None:
            for tile in tiles.stored:
                inside[_corner(tile, tiles)] = True  # a NaN that a program made is no missing store
        return found & ~inside
    untouched: Array = np.zeros_like(run.wrong)
    if tiles is not None:
        untouched[:] = True
        for tile in tiles.stored:
            untouched[_corner(tile, tiles)] = False
    missing: Array = untouched & (run.y == 0)  # right ones too, where the sum is next to 0
    return missing if (missing & run.wrong).any() else np.zeros_like(missing)


def _masked(run: Run, unwritten: Array) -> Observation | None:
    """A store whose mask leaves out elements of Y that nobody else stores."""
    for program, store in recorded_stores(run):
        m, n, _ = places_in_output(run, store)
        size = [1 + int(places.max() - places.min()) for places in (m, n)]
        if store_axes(store, run.strides) is None:  # whose lanes lie nowhere in particular
            continue
        if not store.active.any() and (m[0] % max(2, size[0]) or n[0] % max(2, size[1])):
            continue  # a tile beyond Y, whose address is one of another row
        inside = (m >= 0) & (m < run.sizes[0]) & (n >= 0) & (n < run.sizes[1]) & ~store.active.reshape(-1)
        left_out = inside & unwritten[np.clip(m, 0, run.sizes[0] - 1), np.clip(n, 0, run.sizes[1] - 1)]
        if left_out.any():
            text = f"the mask of the store leaves out rows {span(m[left_out])}, columns {span(n[left_out])} of Y"
            line = line_of_mask(run, store, np.arange(store.size), left_out)
            return Observation("programs", "masked", line, text, "each element of Y stored once", program=program)
    return None


def _past_the_ends(run: Run, unwritten: Array) -> Observation | None:
    """A store that lets rows or columns past the last ones through to where something else lies; no whole tile where elements are missing,
    which no mask mends."""
    for program, store in recorded_stores(run):
        if store_axes(store, run.strides) is None:  # by other strides, so that its places say nothing of ends
            continue
        m, n, _ = places_in_output(run, store)
        active = store.active.reshape(-1)
        for noun, places, end, name in (("columns", n, run.sizes[1], "N"), ("rows", m, run.sizes[0], "M")):
            past = active & (places >= end)
            stray = (past.all() and unwritten.any()) or (active & (places < 0)).any()
            if past.any() and not stray and _at_home(run, program, store, name):
                text = f"the store writes {noun} {span(places[past])}, but Y has {name} = {end} {noun}"
                operand = run.expected.left if name == "N" else run.expected.right  # whose masks end otherwise
                right = numbers_behind(run, *run.loads(program, operand.tensor)[:1])
                line = line_of_mask(run, store, np.arange(store.size), past, right)
                return Observation("programs", f"past {name}", line, text, f"none from {name} on", program=program)
    return None


def _sums(run: Run, program: int, store: Node, lanes: Array) -> tuple[Products, Array | None, Array | None] | None:
    """Some of the sums that a store takes, right or wrong, and the one row and the one column that each is made of."""
    with contextlib.suppress(Untraceable):
        products = products_of(run, program, store, lanes) if len(lanes) else None
        if products is not None:
            return products, rows_met(products, products.left), rows_met(products, products.right)
    return None


def _at_home(run: Run, program: int, store: Node, name: str) -> bool:
    """Whether the sums that a store takes are those of the rows, M, or columns, N, that it stores them to: else its mask is not what is
    wrong."""
    found = _sums(run, program, store, sample(run, store, wrong_only=False))
    if found is None:
        return False
    products, m, n = found
    met, own = (m, products.m) if name == "M" else (n, products.n)
    return met is not None and bool((met == own).all())


@lru_cache(2)
def _line_of_home(run: Run) -> tuple[int | None, bool]:
    """Where the first number was made that could alone bring sums to the rows and columns that they are made of, where the recorded
    programs make different ones, each whole, and whether there is one: else the store that has them elsewhere, None where none has."""
    sums = [
        one
        for program, store in recorded_stores(run)
        if store.active.any() and (one := _sums(run, program, store, sample(run, store, wrong_only=False)))
    ]
    found = [(products, m, n) for products, m, n in sums if m is not None and n is not None]
    idle = len({one.program for one in run.stores}) < math.prod(run.grid)
    whole = not idle and len({(int(m.min()), int(n.min())) for _, m, n in found}) == len(found) > 1
    for products, m, n in found if whole else ():
        store, lanes = products.store, products.flow.lanes
        lacking = m * run.strides[0] + n * run.strides[1] - store.offsets.reshape(-1)[lanes]
        if lacking.any():
            loads = (load_of(run, side, 0) for side in (products.left, products.right))
            right = numbers_behind(run, *filter(None, loads))
            line = line_of_lack(run, store, lanes, lacking, right, (m, n, m * run.strides[0], n * run.strides[1]))
            return line, line != store.line
    return None, False


def _tried_line(run: Run, tiles: TileMap | None) -> tuple[int | None, bool]:
    """Where the number was made that would bring the sums, else the tiles, to where they belong; and whether there is one."""
    home, tried = _line_of_home(run)
    return line_of_tile(run, tiles.tiling) if home is None and tiles is not None else (home, tried)


def _missing(run: Run, tiles: TileMap | None, unwritten: Array) -> Observation:
    rows, columns = np.flatnonzero(unwritten.any(axis=1)), np.flatnonzero(unwritten.any(axis=0))
    text = f"no program stores rows {span(rows)}, columns {span(columns)} of Y"
    if not unwritten[np.ix_(rows, columns)].all():
        text = (
            f"{int(unwritten.sum())} elements of Y are never stored, in rows {span(rows)} and columns {span(columns)}"
        )
    owing = beyond_grid(run, tiles.tiling) if tiles else ""
    if owing:
        grid = " x ".join(map(str, run.grid if run.grid[2] > 1 else run.grid[:2]))
        text += f": going by the others, program {owing} would store there, but the grid has only {grid} programs"
    line, tried = _tried_line(run, tiles)
    if line is None and run.tape.programs.keys() - {one.program for one in run.stores}:
        line = line_of_idle(run)
    if line is None and (store := first_store(run)):
        line = _line_of_ends(run, store, tiles) or store.line
    aspect, hedged = "grid" if owing else "missing", not tried and not owing
    return Observation("programs", aspect, line, text, "each element of Y stored once", hedged=hedged)


def _line_of_ends(run: Run, store: Node, tiles: TileMap | None) -> int | None:
    """Where the loop over tiles that a store stands in ends, or moves on, if its programs store tiles of their own and too few."""
    slices = run.config.split_k if run.grid[1:] == (1, 1) else 1  # of each tile, that a flat grid names as well
    alone = tiles is not None and all(len(who) <= slices for who in tiles.stored.values())
    if tiles is None or not alone or not all(one.active.any() for _, one in recorded_stores(run)):
        return None
    first, at = next(iter(run.tape.programs)), store.line or 0
    found = bounds(run, first, at)
    wide = found is not None and found.by > math.prod(run.grid)  # beyond what the other programs begin with
    if wide or found is None or number_of(run, found.end) < math.prod(tiles.count) * slices:
        return None if found is None else run.tape.nodes[found.step if wide else found.end].line or found.line
    return None


def tile_map(run: Run) -> TileMap | None:
    """None where stores are not whole tiles at multiples of their size."""
    first = first_store(run)
    along_m, along_n = run.strides
    if first is None or along_m < along_n:
        return None
    axes = store_axes(first, run.strides)
    if axes is None:
        return None
    size = (1 if axes[0] is None else int(first.shape[axes[0]]), 1 if axes[1] is None else int(first.shape[axes[1]]))
    by_program: dict[int, list[Tile]] = defaultdict(list)
    for one in run.stores:
        if one.lowest < 0:
            continue
        m, n = one.lowest // along_m, one.lowest % along_m // along_n
        if m % size[0] or n % size[1]:
            return None
        by_program[one.program].append((m // size[0], n // size[1]))
    M, N, _ = run.sizes
    return TileMap(size, (-(-M // size[0]), -(-N // size[1])), dict(by_program), first) if by_program else None


def put_right(
    run: Run, followed: Sequence[Products], known: Sequence[Observation]
) -> tuple[list[Observation], list[Products]]:
    """What is wrong with where sums are stored, and the products with the places in Y that their operands belong to. known: what is said of
    programs, which may have been tried that way already."""
    stray = any(one.misplaced for one in known)
    # else what is met is not what belongs there, or elements are missing because nobody is there to store them, or a mask leaves them out
    may = not stray and not all(one.aspect in ("masked", "grid") for one in known)
    for products in followed:
        observation = _misplaced(run, products)
        if observation and (may or not observation.misplaced):
            return [observation], [_at_operands(run, one) for one in followed]
    return [], [_at_operands(run, one) if stray else one for one in followed]


def rows_met(products: Products, side: Side) -> Array | None:
    """[E]: the one row of an operand that each element of Y is made of; None where it is made of several, or none."""
    live = products.live
    if not live.size or not live.any(axis=1).all():
        return None
    rows = side.row[np.arange(len(live)), live.argmax(axis=1)]
    return rows if ((side.row == rows[:, None]) | ~live).all() else None


def _at_operands(run: Run, products: Products) -> Products:
    m, n = rows_met(products, products.left), rows_met(products, products.right)
    if m is None or n is None:
        return products
    inside = (m < run.sizes[0]) & (n < run.sizes[1])
    return replaced(run, products, np.where(inside, m, products.m), np.where(inside, n, products.n))


def _misplaced(run: Run, products: Products) -> Observation | None:
    """Sums of whole rows and columns that are stored in other places than their own."""
    m, n, store = rows_met(products, products.left), rows_met(products, products.right), products.store
    if m is None or n is None or ((m == products.m).all() and (n == products.n).all()):
        return None
    if not products.meets[products.live].all():
        return None
    if moved := _reordered(run, products, m, n):
        return moved
    used = fit(store.offsets.reshape(-1)[products.flow.lanes], {"m": m, "n": n})
    if used is None:
        return None
    for axis, (noun, places, along) in enumerate((("rows", m, "m"), ("columns", n, "n"))):
        found, own = used[along], run.strides[axis]
        if (places != places[0]).any() and found != own:
            text, expected = f"neighbouring {noun} of the product are stored {{0}} apart", f"stride_y{along} = {own}"
            line = _line_of_stride(run, products, axis, own - found)
            return products.seen("store", f"stride {noun}", line, text, expected, numbers=(named(run, found),))
    line, tried = _line_of_home(run)
    if line is None:
        return None
    text = f"the product of rows {span(m)} of X and rows {span(n)} of W is stored to "
    text += f"rows {span(products.m)}, columns {span(products.n)} of Y"
    return products.seen("store", "place", line, text, f"its first element at Y[{m[0]}, {n[0]}]", hedged=not tried)


def _line_of_stride(run: Run, products: Products, axis: int, lacks: int) -> int | None:
    """Where a tile's rows, 0, or columns, 1, came to lie too near to each other; lacks: by so much. By elements of the whole tile: of those
    that lie in Y by chance, no two rows need share a column."""
    whole, m, n = _sums(run, products.program, products.store, sample_of_tile(products.store)) or (products, None, None)
    places = (m, n)[axis]
    if places is None:
        return products.store.line
    wanted = (places, places * run.strides[1 - axis])
    return line_of_lack(run, products.store, whole.flow.lanes, lacks * (places - places[0]), (), wanted)


def _reordered(run: Run, products: Products, m: Array, n: Array) -> Observation | None:
    """Sums that a reshape, or the like, brought to other places of their own tile."""
    line, tile = line_of_moved(run, products.store), places_in_output(run, products.store)
    amiss = (m != products.m) | (n != products.n)
    if line is None or not amiss.any() or not (np.isin(m, tile[0]).all() and np.isin(n, tile[1]).all()):
        return None
    e = int(amiss.argmax())
    text = f"the sum of the products of X[{m[e]}, :] and W[{n[e]}, :] ends up in {products.element(e)}"
    return products.seen("store", "order", line, text, f"Y[{m[e]}, {n[e]}]")
