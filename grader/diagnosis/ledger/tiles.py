"""Which program stores which part of Y? Every tile once, or once a slice of K."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.ledger.pairs import Run, hull, places_in_output, store_axes, stores_to_output
from grader.diagnosis.ledger.tape import Node, Stored
from grader.labs.divergence import GRID, STORE, TILE, Divergence

Tile = tuple[int, int]
MAX_NAMED = 3
DIVISIONS = ("idiv", "sdiv", "udiv")


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


def look(run: Run) -> list[Divergence]:
    """What the programs of the whole launch stored, recorded or not."""
    found = plain_stores_of_slices(run)
    if found:
        return [found]
    tiles = tile_map(run)
    if tiles is None:
        return []
    slices = run.config.split_k
    if run.wrong.any() and not tiles.stored:
        return []
    again = {tile: who for tile, who in tiles.stored.items() if len(set(who)) > slices}
    if not tiles.missing and not again:
        return []
    programs = math.prod(run.grid)
    needed = math.prod(tiles.count) * slices
    single = all(len(stores_to_output(run, program)) < 2 for program in run.tape.programs)
    if not again and programs < needed and single and all(len(set(own)) == 1 for own in tiles.by_program.values()):
        kind = f"{tiles.count[0]} x {tiles.count[1]} tiles" + (f" in {slices} slices" if slices > 1 else "")
        return [Divergence("grid_too_small", GRID, tiles.line, f"the grid has {programs} programs, and {_listed(tiles.missing)} of Y "
                        "is stored by nobody", f"{needed} programs for {kind} of {tiles.size[0]} x {tiles.size[1]}",
                        "the grid has fewer programs than Y has tiles")]  # fmt: skip
    empty = _empty_rows(run, tiles)
    if empty:
        return [empty]
    return [_wrong_map(run, tiles, again)]


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
    for program in run.tape.programs:
        stores = stores_to_output(run, program)
        if len(stores) == 1:
            m, n, _ = places_in_output(run, stores[0])
            if len(m) and not m[0] % size[0] and not n[0] % size[1]:
                found[program] = (int(m[0]) // size[0], int(n[0]) // size[1])
    return found


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


def _listed(tiles: list[Tile]) -> str:
    words = ", ".join(str(tile) for tile in tiles[:MAX_NAMED])
    return f"tile{'s' if len(tiles) > 1 else ''} {words}" + (", ..." if len(tiles) > MAX_NAMED else "")


def _empty_rows(run: Run, tiles: TileMap) -> Divergence | None:
    if run.stages.needed is None or not tiles.missing:
        return None
    need = np.asarray(run.stages.needed(run.problem)).any(axis=1).reshape(-1)
    columns = {j for _, j in tiles.missing}
    if not need.any() or any(bool(np.any(need[j * tiles.size[1] : (j + 1) * tiles.size[1]])) for j in columns):
        return None
    j = min(columns)
    return Divergence("empty_row_unwritten", STORE, tiles.line,
                   f"nobody stores Y[..., {j * tiles.size[1]}:{(j + 1) * tiles.size[1]}], whose block row has no blocks",
                   "zeros there", "an empty block row gives zeros, and they have to be stored like any others")  # fmt: skip


def _wrong_map(run: Run, tiles: TileMap, again: dict[Tile, list[int]]) -> Divergence:
    missing = f"nobody stores {_listed(tiles.missing)}" if tiles.missing else ""
    outside = {p: tile for p, tile in tiles.meant.items() if tile[0] >= tiles.count[0] or tile[1] >= tiles.count[1]}
    found, expected = missing, "each tile from one program"
    if again:
        found = _stored_again(run, again) + (f", and {missing}" if missing else "")
    elif outside:
        program, tile = next(iter(outside.items()))
        found += f", and program {program} is after tile {tile}, where Y has {tiles.count[0]} x {tiles.count[1]}"
    idle = next((program for program in run.tape.programs if not stores_to_output(run, program)), None)
    if idle is not None and not again and not outside and len(tiles.by_program) + len(tiles.missing) <= math.prod(run.grid):
        return Divergence(
            "tile_map", TILE, tiles.line, f"{found}: program {idle} ends without a store", expected,
            "some programs end, or pass their store by, before they have stored anything", idle,
        )  # fmt: skip
    if not again and not outside and (cut := _cut_off(run, tiles)):
        return Divergence("tiles_left_out", TILE, tiles.line, found, expected, cut)
    name, line, reason = _map_reason(run, tiles)
    return Divergence(name, TILE, line, found, expected, reason)


def _stored_again(run: Run, again: dict[Tile, list[int]]) -> str:
    tile, who = next(iter(again.items()))
    names = sorted(set(who))
    if len(names) > 2 and len(names) == math.prod(run.grid):
        return f"every program stores tile {tile} of Y"
    return f"programs {', '.join(str(p) for p in names[:3])}{', ...' if len(names) > 3 else ''} store tile {tile} of Y"


def _map_reason(run: Run, tiles: TileMap) -> tuple[str, int | None, str]:
    """The mistake's name, its line and the reason; the surest that fits."""
    if unread := _unread_axis(run):
        return _still(tiles)[0], tiles.line, unread
    if reason := _axes(run, tiles):
        return "program_ids_swapped", tiles.line, reason
    if divided := _division(run, tiles):
        return "program_ids_swapped", *divided
    if grouped := _group(run, tiles):
        return "tile_map", *grouped
    name, reason = _still(tiles)
    return name, tiles.line, reason


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


def _still(tiles: TileMap) -> tuple[str, str]:
    """Which part of the tile's place is the same in every program: the mistake's name, and the words."""
    addressed = set(tiles.stored) | set(tiles.meant.values())
    rows, columns = ({tile[d] for tile in addressed} for d in (0, 1))
    if len(rows) == 1 and len(columns) == 1:
        return "tile_offset_forgotten", "the offset of the program's tile is not in the addresses"
    if len(rows) == 1 and tiles.count[0] > 1:
        return "row_tile_offset_forgotten", "the rows that are stored do not depend on the program"
    if len(columns) == 1 and tiles.count[1] > 1:
        return "column_tile_offset_forgotten", "the columns that are stored do not depend on the program"
    return "tile_map", "the numbers of the tiles do not follow from the program ids as the grid needs"


def _unread_axis(run: Run) -> str:
    """An axis along which the grid has several programs and whose program id a kernel that reads another never reads; else ""."""
    nodes = run.tape.nodes
    for program, numbers in run.tape.programs.items():
        ids = [nodes[number].data for number in numbers if nodes[number].op == "get_program_id"]
        read = {int(number.reshape(-1)[0]) for number in ids if number is not None}
        for axis, own in enumerate(np.unravel_index(program, run.grid)):
            if read and run.grid[axis] > 1 and int(own) not in read:
                return (f"the grid is {run.grid}, and tl.program_id({axis}) is never read: programs that differ in it alone "
                        "do the same work; read it, or return another grid")  # fmt: skip
    return ""


def _axes(run: Run, tiles: TileMap) -> str:
    """Program ids of two axes, each taken for the tiles that the grid counts on the other one; else ""."""
    if run.grid[0] == run.grid[1] or run.grid[1] == 1:
        return ""
    own = _own(tiles)
    numbers = [np.array(np.unravel_index([program for program, _ in own], run.grid))[axis] for axis in (0, 1)]
    for axis in (0, 1):  # program_id(axis) numbers the row tiles, program_id(1 - axis) the column tiles
        follows = all((numbers[axis if d == 0 else 1 - axis] == [tile[d] for _, tile in own]).all() for d in (0, 1))
        if follows and (run.grid[axis], run.grid[1 - axis]) == (tiles.count[1], tiles.count[0]):
            return (f"program_id({axis}) is taken for the row tile, and the grid counts the column tiles on axis {axis}: "
                    f"it is {run.grid[:2]}, and Y has {tiles.count[0]} x {tiles.count[1]} tiles")  # fmt: skip
    return ""


def _own(tiles: TileMap) -> list[tuple[int, Tile]]:
    """Programs and the tiles that they store or address."""
    return [*((program, tile) for program, found in tiles.by_program.items() for tile in found), *tiles.meant.items()]


def _group(run: Run, tiles: TileMap) -> tuple[int | None, str] | None:
    """Programs in groups of row tiles, the last of which is smaller than the others: the line, and the words."""
    nodes = run.tape.nodes
    if not any(tile[0] >= tiles.count[0] for tile in tiles.meant.values()):
        return None
    for numbers in run.tape.programs.values():
        for number in numbers:
            node = nodes[number]
            if node.op not in ("srem", "urem") or nodes[node.inputs[0]].op not in ("srem", "urem"):
                continue
            inner, divisor = nodes[node.inputs[0]], nodes[node.inputs[1]].data
            if nodes[inner.inputs[0]].op != "get_program_id" or divisor is None:
                continue
            size = int(divisor.reshape(-1)[0])
            if size > 1 and tiles.count[0] % size:
                return node.line, (f"every group is taken to have {size} row tiles; Y has {tiles.count[0]}, so the last "
                                   f"group has {tiles.count[0] % size}")  # fmt: skip
    return None


def _division(run: Run, tiles: TileMap) -> tuple[int | None, str] | None:
    """The number of a tile divided by the number of the wrong tiles: the line, and the words."""
    for program, numbers in run.tape.programs.items():
        for number in numbers:
            node = run.tape.nodes[number]
            if node.op not in (*DIVISIONS, "srem", "urem"):
                continue
            own, called = _numbered(run, tiles, program, run.tape.nodes[node.inputs[0]])
            divisor = run.tape.nodes[node.inputs[1]].data
            if not own or divisor is None:
                continue
            by = int(divisor.reshape(-1)[0])
            rows, columns = _is_tile(tiles, node.op, by, 0, own), _is_tile(tiles, node.op, by, 1, own)
            quotient = node.op in DIVISIONS
            sign = f"{called} {'//' if quotient else '%'}"
            if rows and not columns and (by != tiles.count[1] if quotient else by != tiles.count[0]):
                return node.line, _division_words(tiles, sign, by, "row", quotient)
            if columns and not rows and (by != tiles.count[0] if quotient else by != tiles.count[1]):
                return node.line, _division_words(tiles, sign, by, "column", quotient)
    return None


def _numbered(run: Run, tiles: TileMap, program: int, dividend: Node) -> tuple[list[tuple[int, Tile]], str]:
    """Numbers of tiles with the tiles that were stored, or addressed, for them, if a dividend is such a number; and what it is called.

    It is the program id, or the number that a program which walks over several tiles has reached.
    """
    if dividend.op == "get_program_id":
        return (_own(tiles), "program_id") if program in tiles.meant else ([], "")
    walked = _walked(run, tiles.size)
    own_numbers = {number for number, _ in walked.get(program, ())}
    if dividend.data is None or dividend.size != 1 or dividend.op in (*DIVISIONS, "srem", "urem") or 0 in own_numbers:
        return [], ""
    if int(dividend.data.reshape(-1)[0]) not in own_numbers:
        return [], ""
    return [pair for pairs in walked.values() for pair in pairs], "the tile's number"


def _walked(run: Run, size: Tile) -> dict[int, list[tuple[int, Tile]]]:
    """For each recorded program the numbers of its tiles, a grid apart from each other, and the tiles, in the order of its stores."""
    found = {}
    for program in run.tape.programs:
        places = [places_in_output(run, store)[:2] for store in stores_to_output(run, program)]
        if run.grid[0] == math.prod(run.grid) and all(len(m) and not m[0] % size[0] and not n[0] % size[1] for m, n in places):
            found[program] = [
                (program + turn * run.grid[0], (int(m[0]) // size[0], int(n[0]) // size[1])) for turn, (m, n) in enumerate(places)
            ]
    return found


def _is_tile(tiles: TileMap, op: str, by: int, axis: int, numbered: list[tuple[int, Tile]]) -> bool:
    """Whether a tile's number op `by` is the tile's place along an axis, for every program that stored."""
    if by <= 0:
        return False
    own = [(number, tile[axis]) for number, tile in numbered]
    if op not in DIVISIONS and by not in tiles.count and all(program < by for program, _ in own):
        return False  # a remainder that never starts over, by no number of tiles, is the program id itself
    return len({tile for _, tile in own}) > 1 and all(
        (program // by if op in DIVISIONS else program % by) == tile for program, tile in own)  # fmt: skip


def _division_words(tiles: TileMap, sign: str, by: int, axis: str, quotient: bool) -> str:
    counts = {"row": tiles.count[0], "column": tiles.count[1]}
    other = "column" if axis == "row" else "row"
    called = f"the number of {axis} tiles" if by == counts[axis] != counts[other] else (
        f"the number of {other} tiles" if by == counts[other] else str(by))  # fmt: skip
    right = other if quotient else axis
    return (f"the {axis} tile is {sign} {by}, which is {called}; for a {axis} tile from the "
            f"{'quotient' if quotient else 'remainder'} it has to be the number of {right} tiles, {counts[right]}")  # fmt: skip
