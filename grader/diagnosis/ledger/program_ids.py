"""How does a wrong tile follow from the program id? The mistake's name, its line and the words, the surest that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.ledger import tile_groups
from grader.diagnosis.ledger.pairs import Run, places_in_output, store_axes, stores_to_output
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tile_groups import DIVISIONS, REMAINDERS
from grader.diagnosis.ledger.tile_map import Tile, TileMap


def map_reason(run: Run, tiles: TileMap) -> tuple[str, int | None, str]:
    """The mistake's name, its line and the reason; the surest that fits."""
    if unread := _unread_axis(run):
        return _still(tiles)[0], tiles.line, unread
    if reason := _axes(run, tiles):
        return "program_ids_swapped", tiles.line, reason
    own = [(int(np.unravel_index(program, run.grid)[0]), tile) for program, tile in _own(tiles)]
    if grouped := tile_groups.look(run, tiles, own):
        return "tile_map", *grouped
    if divided := _division(run, tiles):
        return "program_ids_swapped", *divided
    if spread := _spread(tiles):
        name, reason = spread
        return name, tiles.line, reason
    (name, reason), idle = _still(tiles), _idle_axis(run)
    if not idle and _transposed(run, tiles):
        words = "the number of the row tile and that of the column tile are exchanged"
        if min(tiles.count) > 1 or _follow_programs(run, tiles):
            return "program_ids_swapped", tiles.line, words
        name, reason = f"{name} or program_ids_swapped", f"{reason}, or {words}"
    if name.startswith(("row_tile", "column_tile")) and (by := _divided_away(run, tiles)):
        noun = name.split("_")[0]
        reason = f"the {noun} tile is a quotient by {by[1]}, which is 0 for every program here, and Y has {by[2]} tiles along its {noun}s"
        return "tile_map", by[0], reason
    return name, tiles.line, reason + idle


def _divided_away(run: Run, tiles: TileMap) -> tuple[int | None, int, int] | None:
    """A division that the places in Y are made of, of numbers that differ from program to program, whose quotient is 0 in all that were
    recorded: its line, the divisor, and how many tiles there are along the axis on which all stored tiles lie in one place."""
    addressed = set(tiles.stored) | set(tiles.meant.values())
    still = [axis for axis in (0, 1) if len({tile[axis] for tile in addressed}) == 1 and tiles.count[axis] > 1]
    if len(still) != 1:
        return None
    seen: dict[tuple[int | None, int], set[int]] = {}
    for program in run.tape.programs:
        places = {i for store in stores_to_output(run, program) for i in store.inputs[1:]}
        for node in (node for node in _behind(run, places) if node.op in DIVISIONS):
            dividend, divisor = (run.tape.nodes[i].data for i in node.inputs[:2])
            if dividend is None or divisor is None or dividend.size != 1:
                continue
            seen.setdefault((node.line, int(divisor.reshape(-1)[0])), set()).add(int(dividend.reshape(-1)[0]))
    found = ((line, by) for (line, by), numbers in seen.items() if len(numbers) > 1 and min(numbers) >= 0 and max(numbers) < by)
    line, by = next(found, (None, 0))
    return (line, by, tiles.count[still[0]]) if by else None


def _spread(tiles: TileMap) -> tuple[str, str] | None:
    """Tiles that lie several tiles apart along one axis, so that those between are left out: the mistake's name, and the words."""
    for axis, noun in enumerate(("row", "column")):
        numbers = {tile[axis] for _, tile in _own(tiles)}
        apart = math.gcd(*numbers)
        if apart > 1 and len(numbers) > 2 and numbers == set(range(0, max(numbers) + 1, apart)):
            size = tiles.size[axis]
            return f"{noun}_tile_offset_forgotten", (
                f"the tiles of neighbouring programs are {apart * size} {noun}s apart, and {size} {noun}s {('high', 'wide')[axis]}")
    return None


def _still(tiles: TileMap) -> tuple[str, str]:
    """Which part of the tile's place is the same in every program: the mistake's name, and the words."""
    addressed = set(tiles.stored) | set(tiles.meant.values())
    rows, columns = ({tile[d] for tile in addressed} for d in (0, 1))
    if len(rows) == 1 and len(columns) == 1 and min(tiles.count) > 1:
        return "tile_offset_forgotten", "the offset of the program's tile is not in the addresses"
    both = " or tile_offset_forgotten" if len(rows) == len(columns) == 1 else ""  # Y has one tile along the other axis
    if len(rows) == 1 and tiles.count[0] > 1:
        return f"row_tile_offset_forgotten{both}", "the rows that are stored do not depend on the program"
    if len(columns) == 1 and tiles.count[1] > 1:
        return f"column_tile_offset_forgotten{both}", "the columns that are stored do not depend on the program"
    return "tile_map", "the numbers of the tiles do not follow from the program ids as the grid needs"


def _transposed(run: Run, tiles: TileMap) -> bool:
    """Whether the programs' tiles are those of Y with rows and columns exchanged, some of them outside of it, and each its own."""
    own = set(_own(tiles))
    turned = [tile[::-1] for _, tile in own]
    inside = all(i < tiles.count[0] and j < tiles.count[1] for i, j in turned)
    outside = any(i >= tiles.count[0] or j >= tiles.count[1] for _, (i, j) in own)
    return inside and outside and max(turned.count(tile) for tile in set(turned)) <= run.config.split_k


def _follow_programs(run: Run, tiles: TileMap) -> bool:
    """Whether the offsets along the axis on which all stored tiles lie in one place are made of a program id nevertheless."""
    addressed = set(tiles.stored) | set(tiles.meant.values())
    still = [axis for axis in (0, 1) if len({tile[axis] for tile in addressed}) == 1]
    stores = [store for program in run.tape.programs for store in stores_to_output(run, program)]
    strides = tuple(int(stride) for stride in run.problem.tensors[run.lab.output].stride())
    return bool(stores) and all(_made_of_id(run, store, axis, (strides[0], strides[1])) for store in stores for axis in still)


def _made_of_id(run: Run, store: Node, axis: int, strides: tuple[int, int]) -> bool:
    """Whether a part of a store's addresses that differs along one axis of Y alone is made of a program id."""
    axes, nodes = store_axes(store, strides), run.tape.nodes
    along = axes[axis] if axes else None
    if along is None:
        return False
    waiting = list(store.inputs)
    seen: set[int] = set(waiting)
    parts: set[int] = set()
    while waiting:
        number = waiting.pop()
        shape = nodes[number].shape
        if len(shape) == len(store.shape) and shape[along] > 1 and all(length == 1 for at, length in enumerate(shape) if at != along):
            parts.add(number)
            continue
        fresh = [i for i in nodes[number].inputs if i not in seen]
        seen.update(fresh)
        waiting += fresh
    return _made_of_program_id(run, parts)


def _made_of_program_id(run: Run, numbers: set[int]) -> bool:
    """Whether a program id is among these nodes or what they are made of."""
    return any(node.op == "get_program_id" for node in _behind(run, numbers))


def _behind(run: Run, numbers: set[int]) -> Iterator[Node]:
    """Nodes and all that they are made of."""
    waiting, seen = list(numbers), set(numbers)
    while waiting:
        node = run.tape.nodes[waiting.pop()]
        yield node
        fresh = [i for i in node.inputs if i not in seen]
        seen.update(fresh)
        waiting += fresh


def _idle_axis(run: Run) -> str:
    """As a clause: the axis along which the grid has one program, and whose program id the places in Y come from; else ""."""
    axis = next((axis for axis in sorted(_axes_of_places(run)) if run.grid[axis] == 1), None)
    return "" if axis is None or max(run.grid) == 1 else f": tl.program_id({axis}) is 0 in each of them, for the grid is {run.grid}"


def _axes_of_places(run: Run) -> set[int]:
    """The axes whose program ids the addresses of recorded stores to Y are made of."""
    nodes = run.tape.nodes
    waiting = [i for program in run.tape.programs for store in stores_to_output(run, program) for i in store.inputs[1:]]
    seen, axes = set(waiting), set()
    while waiting:
        node = nodes[waiting.pop()]
        if node.op == "get_program_id" and isinstance(node.attribute, int):
            axes.add(node.attribute)
        fresh = [i for i in node.inputs if i not in seen]
        seen.update(fresh)
        waiting += fresh
    return axes


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


@dataclass(frozen=True)
class _Divided:
    """The number of a tile, divided: `quotient` or remainder by `by`. rows, columns: whether that is the tile's place along M, along N."""

    program: int
    node: Node
    called: str
    by: int
    quotient: bool
    rows: bool
    columns: bool

    @property
    def words(self) -> str:
        return f"{self.called} {'//' if self.quotient else '%'} {self.by}"


def _divided(run: Run, tiles: TileMap) -> Iterator[_Divided]:
    """The divisions of tiles' numbers that all recorded programs agree with."""
    for program, numbers in run.tape.programs.items():
        for number in numbers:
            node = run.tape.nodes[number]
            if node.op not in (*DIVISIONS, *REMAINDERS):
                continue
            own, called = _numbered(run, tiles, program, run.tape.nodes[node.inputs[0]])
            divisor = run.tape.nodes[node.inputs[1]].data
            if not own or divisor is None:
                continue
            by = int(divisor.reshape(-1)[0])
            rows, columns = _is_tile(tiles, node.op, by, 0, own), _is_tile(tiles, node.op, by, 1, own)
            yield _Divided(program, node, called, by, node.op in DIVISIONS, rows, columns)


def _division(run: Run, tiles: TileMap) -> tuple[int | None, str] | None:
    """The number of a tile divided by the number of the wrong tiles, or for both places alike: the line, and the words."""
    divided = list(_divided(run, tiles))
    for one in divided:
        if one.rows and not one.columns and one.by != tiles.count[1 if one.quotient else 0]:
            return one.node.line, _division_words(tiles, one, "row")
        if one.columns and not one.rows and one.by != tiles.count[0 if one.quotient else 1]:
            return one.node.line, _division_words(tiles, one, "column")
    return _alike(divided) or _by_two_numbers(divided)


def _alike(divided: list[_Divided]) -> tuple[int | None, str] | None:
    """Both places are quotients of the tile's number, or both remainders, each by a number that would do for one of them.

    They are two divisions: where all tiles lie on the diagonal, one is like both places.
    """
    for row in (one for one in divided if one.rows):
        for column in (one for one in divided if one.columns and one.program == row.program and one.node is not row.node):
            if row.quotient == column.quotient:
                kind, other = ("quotient", "remainder") if row.quotient else ("remainder", "quotient")
                return row.node.line, (f"the row tile is {row.words} and the column tile {column.words}: both are a {kind}, and one of "
                                       f"them has to be the {other}")  # fmt: skip
    return None


def _by_two_numbers(divided: list[_Divided]) -> tuple[int | None, str] | None:
    """One place is a quotient of the tile's number and the other a remainder, by two numbers: the line, and the words."""
    of_places = [one for one in divided if one.rows or one.columns]
    for rest in (one for one in of_places if not one.quotient):
        for whole in (one for one in of_places if one.quotient and one.program == rest.program and one.by != rest.by):
            if (rest.rows and whole.columns) or (rest.columns and whole.rows):
                return rest.node.line, (f"the tile's place is {rest.words} and {whole.words}: the remainder and the quotient have to be by "
                                        "one number, that of the tiles that the remainder counts")  # fmt: skip
    return None


def _numbered(run: Run, tiles: TileMap, program: int, dividend: Node) -> tuple[list[tuple[int, Tile]], str]:
    """Numbers of tiles with the tiles that were stored, or addressed, for them, if a dividend is such a number; and what it is called.

    It is the program id, or the number that a program which walks over several tiles has reached.
    """
    walked = _walked(run, tiles.size)
    every, several = [pair for pairs in walked.values() for pair in pairs], any(len(pairs) > 1 for pairs in walked.values())
    if dividend.op == "get_program_id" and several:
        return every, "the tile's number"
    if dividend.op == "get_program_id":
        return (_along(run, _own(tiles), dividend), "program_id") if program in tiles.meant else ([], "")
    own_numbers = {number for number, _ in walked.get(program, ())}
    if dividend.data is None or dividend.size != 1 or dividend.op in (*DIVISIONS, *REMAINDERS) or 0 in own_numbers:
        return [], ""
    if dividend.inputs and not _made_of_program_id(run, {dividend.number}):
        return [], ""  # made of sizes, and a tile's number by chance
    return (every, "the tile's number") if int(dividend.data.reshape(-1)[0]) in own_numbers else ([], "")


def _along(run: Run, own: list[tuple[int, Tile]], read: Node) -> list[tuple[int, Tile]]:
    """Tiles by the program id along the axis that a node reads, which only the ids of all recorded programs tell."""
    nodes = run.tape.nodes
    ids = {program: [nodes[number].data for number in numbers if nodes[number].op == read.op and nodes[number].line == read.line]
           for program, numbers in run.tape.programs.items()}  # fmt: skip
    for axis, length in enumerate(run.grid):
        along = {program: int(np.unravel_index(program, run.grid)[axis]) for program in ids}
        if length > 1 and all(any(one is not None and int(one.reshape(-1)[0]) == along[p] for one in data) for p, data in ids.items()):
            return [(int(np.unravel_index(program, run.grid)[axis]), tile) for program, tile in own]
    return own


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


def _division_words(tiles: TileMap, divided: _Divided, axis: str) -> str:
    counts = {"row": tiles.count[0], "column": tiles.count[1]}
    other, by = "column" if axis == "row" else "row", divided.by
    called = f", which is the number of {axis} tiles" if by == counts[axis] != counts[other] else (
        f", which is the number of {other} tiles" if by == counts[other] else "")  # fmt: skip
    right = other if divided.quotient else axis
    return (f"the {axis} tile is {divided.words}{called}; for a {axis} tile from the "
            f"{'quotient' if divided.quotient else 'remainder'} it has to be the number of {right} tiles, {counts[right]}")  # fmt: skip
