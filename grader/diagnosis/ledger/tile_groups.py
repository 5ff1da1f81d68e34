"""Where programs go through row tiles in groups, what is wrong with the groups? The line and the words.

In such an order program p belongs to group p // (size * columns); its place in it is the remainder. The row tile is the group's first
one, size * group, plus place % height, and the column tile place // height, where the last group may be less high than the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tile_map import Tile, TileMap

Said = tuple[int | None, str]
DIVISIONS, REMAINDERS = ("idiv", "sdiv", "udiv"), ("srem", "urem")


@dataclass(frozen=True)
class _Group:
    """The group of one recorded program, as the kernel counts it, and the tile that it stores or addresses.

    in_group: the programs in a group, and `counted` the node that they come from. place: the program's place in it. divided: the node
    whose remainder of it by `height` is the row tile in the group; by_width: the one whose quotient by `width`, which should be the same
    number, is the column tile. Where a kernel has one of the two alone, they are alike. number: that of the group; None where it is not
    asked for. size: the row tiles that the number is multiplied by, and `begin` the node that does, or that adds it to the number
    (`added`); None where neither is done.
    """

    program: int
    tile: Tile
    in_group: int
    counted: Node
    height: int
    divided: Node
    width: int
    by_width: Node
    number: Node | None
    begin: Node | None
    size: int | None
    added: bool

    @property
    def place(self) -> int:
        return self.program % self.in_group

    @property
    def first(self) -> int:
        """The first row tile, as the kernel takes it."""
        begin = _whole(self.begin)
        return 0 if begin is None else begin

    @property
    def within(self) -> Tile:
        """The place in the group, as a row tile and a column tile of the group; dividing rounds towards zero."""
        return self.place % abs(self.height), self.place // abs(self.width) * (1 if self.width > 0 else -1)

    def height_of(self, rows: int) -> int | None:
        """How many row tiles the group has; None where its size is not known, or it begins behind the last row tile."""
        return min(self.size, rows - self.first) if self.size and self.first < rows else None


def look(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> Said | None:
    """own: program ids along axis 0 and the tiles that are stored or addressed for them."""
    groups = list(_groups(run, own))
    if not groups:
        return None
    asked: tuple[Callable[[], Said | None], ...] = (
        lambda: _without_begin(groups, tiles),
        lambda: _width(run, groups, tiles),
        lambda: _begin(groups, tiles),
        lambda: _height(groups, tiles),
        lambda: _place_in_grid(groups),
    )
    return next((said for ask in asked if (said := ask())), None)


def _groups(run: Run, own: Sequence[tuple[int, Tile]]) -> Iterator[_Group]:
    """The groups of recorded programs that divide the place in a group of programs once more."""
    nodes = run.tape.nodes
    tile_of = dict(own)
    for program, numbers in run.tape.programs.items():
        along = int(np.unravel_index(program, run.grid)[0])
        if along not in tile_of:
            continue
        divided = [node for number in numbers if (node := nodes[number]).op in (*REMAINDERS, *DIVISIONS) and _of_place(run, node)]
        rest = next((node for node in divided if node.op in REMAINDERS), None)
        whole = next((node for node in divided if node.op in DIVISIONS), None)
        if not (first := rest or whole):
            continue
        counted = nodes[nodes[first.inputs[0]].inputs[1]]
        in_group, (height, width) = _whole(counted), (_whole(nodes[(node or first).inputs[1]]) for node in (rest, whole))
        if not in_group or in_group < 0 or not height or not width:
            continue
        group = next((nodes[i] for i in numbers if nodes[i].op in DIVISIONS and nodes[nodes[i].inputs[0]].op == "get_program_id"
                      and _whole(nodes[nodes[i].inputs[1]]) == in_group), None)  # fmt: skip
        begin, size, added = _begins(run, numbers, group)
        yield _Group(
            along, tile_of[along], in_group, counted, height, first, width, whole or first, group, begin, size, added,
        )  # fmt: skip


def _of_place(run: Run, node: Node) -> bool:
    """Whether a node divides the place in a group of programs, which is a remainder of the program id."""
    inner = run.tape.nodes[node.inputs[0]]
    return inner.op in REMAINDERS and run.tape.nodes[inner.inputs[0]].op == "get_program_id"


def _begins(run: Run, numbers: range, group: Node | None) -> tuple[Node | None, int | None, bool]:
    """The node that makes a group's first row tile of its number, what that is multiplied by, and whether it is added instead."""
    nodes = run.tape.nodes
    for node in (nodes[i] for i in numbers if group is not None and group.number in nodes[i].inputs):
        other = [nodes[i] for i in node.inputs if group is not None and i != group.number]
        size = _whole(other[0]) if len(other) == 1 else None
        if node.op == "mul" and size:
            return node, size, False
        if node.op == "add" and size and other[0].op not in REMAINDERS:
            return node, size, True
    return None, None, False


def _without_begin(groups: Sequence[_Group], tiles: TileMap) -> Said | None:
    """Groups each of which begins at row tile 0."""
    rows, columns = tiles.count
    for one in groups:
        size = one.in_group // columns
        if not 1 < size < rows or one.in_group % columns:
            continue
        of_later = any(group.place != group.program for group in groups)
        if of_later and all(group.tile == _tile_of(group.program, one.in_group, size, rows, begins=0) for group in groups):
            return one.divided.line, (
                f"the row tile is the place in a group of {size} row tiles alone, so that each group begins at row tile 0: "
                f"the first row tile of the group, {size} * (program_id // {one.in_group}), is not added")  # fmt: skip
    return None


def _width(run: Run, groups: Sequence[_Group], tiles: TileMap) -> Said | None:
    """Groups of more, or fewer, programs than their row tiles have columns."""
    rows, columns = tiles.count
    for one in groups:
        size = one.size
        if not size or one.added or one.in_group == size * columns or not _in_rows(groups, tiles):
            continue
        if size > 1 and (counted := _other_factor(run, one.counted, size)) is not None:
            number, by = one.in_group // size, _divisor(run, counted)
            wide = f"column tile{'s' if number > 1 else ''} wide"
            if number == rows:
                return counted.line, (f"a group of {size} row tiles is taken to be {number} {wide}, which is the number of row tiles; "
                                      f"Y has {columns} column tile{'s' if columns > 1 else ''}")  # fmt: skip
            counted_by = f", counted by {by}" if by not in (None, tiles.size[1]) else ""
            return counted.line, (f"a group of {size} row tiles is taken to be {number} {wide}{counted_by}; Y has {columns}, of "
                                  f"{tiles.size[1]} columns each")  # fmt: skip
        line = one.counted.line if one.number is None else one.number.line
        return line, (f"the program id is divided by {one.in_group} for the number of its group; a group of {size} row tiles has "
                      f"{size} x {columns} programs, for Y has {columns} column tile{'s' if columns > 1 else ''}")  # fmt: skip
    return None


def _begin(groups: Sequence[_Group], tiles: TileMap) -> Said | None:
    """Groups that begin with the row tile of their number, or of this and their size, and not with as many times their size."""
    one = groups[0]
    if one.added and one.begin is not None and _in_rows(groups, tiles):
        return one.begin.line, (f"the first row tile of a group is taken to be the number of the group + {one.size}, and not {one.size} "
                                "times that number")  # fmt: skip
    size = one.size or one.in_group // tiles.count[1]
    later = any(group.place != group.program for group in groups)
    if size > 1 and later and one.number and all(group.tile[0] == group.program // group.in_group + group.within[0] for group in groups):
        return one.number.line, (f"the first row tile of a group of {size} is taken to be the number of the group, and not {size} times "
                                 "that number")  # fmt: skip
    return None


def _height(groups: Sequence[_Group], tiles: TileMap) -> Said | None:
    """Groups that are taken to be higher, or less high, than they are."""
    rows = tiles.count[0]
    if not _in_rows(groups, tiles) or any(one.added for one in groups):
        return None
    for one in groups:
        right = one.height_of(rows)
        for number, node, noun in ((one.height, one.divided, "row"), (one.width, one.by_width, "column")):
            if right is None or number == right:
                continue
            alone = one.height == right or one.width == right
            taken = f"every group is taken to have {number} row tiles"
            if alone:
                taken = f"the {noun} tile is the place in the group {'//' if noun == 'column' else '%'} {number}"
            if all((group.width if noun == "column" else group.height) == number for group in groups):
                last = rows - (rows - 1) // (one.size or 1) * (one.size or 1)
                return node.line, f"{taken}; Y has {rows}{' row tiles' if alone else ''}, so the last group has {last}"
            return node.line, (f"the group of program {one.program} is taken to have {number} row tiles; it begins with row tile "
                               f"{one.first} of {rows}, so it has {right}")  # fmt: skip
    return None


def _place_in_grid(groups: Sequence[_Group]) -> Said | None:
    """Column tiles from the place in the grid, and not from that in the group."""
    if all(one.tile[1] == one.program // one.width for one in groups) and any(one.place != one.program for one in groups):
        one = next(one for one in groups if one.place != one.program)
        return one.divided.line, (
            f"the column tile is program_id // {one.width}; what has to be divided is the place in the group, program_id % {one.in_group}")
    return None


def _in_rows(groups: Sequence[_Group], tiles: TileMap) -> bool:
    """Whether the groups are of row tiles: their rows or their columns follow from the place in the group as they should.

    Where all of them are one, the number of programs in a group has to say so.
    """
    rows = all(one.tile[0] == one.first + one.within[0] for one in groups)
    columns = all(one.tile[1] == one.within[1] for one in groups)
    if rows and columns and all(one.size and one.in_group == one.size * tiles.count[1] for one in groups):
        return True
    return (rows and len({one.tile[0] for one in groups}) > 1) or (columns and len({one.tile[1] for one in groups}) > 1)


def _other_factor(run: Run, product: Node, size: int) -> Node | None:
    """The number of columns that a number of programs is made of, beside the size of a group."""
    if product.op != "mul":
        return None
    first, second = (run.tape.nodes[i] for i in product.inputs[:2])
    return next((counted for factor, counted in ((first, second), (second, first)) if _whole(factor) == size), None)


def _divisor(run: Run, counted: Node) -> int | None:
    """By what a number of tiles was divided out; None where it comes from no division."""
    return _whole(run.tape.nodes[counted.inputs[1]]) if counted.op in DIVISIONS else None


def _whole(node: Node | None) -> int | None:
    """The number in a node; None where it is not known."""
    return None if node is None or node.data is None or not node.data.size else int(node.data.reshape(-1)[0])


def _tile_of(program: int, in_group: int, size: int, rows: int, begins: int) -> Tile:
    """The tile of a program whose group begins with the row tile of `begins` times its number: `size` if it is right, 0 for the first."""
    group, place = divmod(program, in_group)
    height = max(1, min(size, rows - group * size))
    return group * begins + place % height, place // height
