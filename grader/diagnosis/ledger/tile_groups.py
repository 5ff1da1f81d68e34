"""Where programs go through row tiles in groups, what is wrong with the groups? The line and the words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tile_map import Tile, TileMap


def look(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> tuple[int | None, str] | None:
    """own: program ids along axis 0 and the tiles that are stored or addressed for them."""
    return _last_group(run, tiles) or _first_of_group(run, tiles, own) or _columns_of_group(run, tiles, own)


def without_begin(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> tuple[int | None, str] | None:
    """Groups of row tiles each of which begins at row tile 0: the line of the place in the group, and the words."""
    rows, columns = tiles.count
    for node, in_group in _places_in_group(run):
        size = in_group // columns
        if not 1 < size < rows or in_group % columns:
            continue
        if all(tile == _tile_of(program, in_group, size, rows, begins=0) for program, tile in own):
            return node.line, (f"the row tile is the place in a group of {size} row tiles alone, so that each group begins at row tile 0: "
                               f"the first row tile of the group, {size} * (program_id // {in_group}), is not added")  # fmt: skip
    return None


def _places_in_group(run: Run) -> Iterator[tuple[Node, int]]:
    """Remainders of a remainder of the program id, and the number of programs in a group, which the inner one is by."""
    nodes = run.tape.nodes
    for numbers in run.tape.programs.values():
        for node in nodes[numbers.start : numbers.stop]:
            if node.op in ("srem", "urem") and (inner := nodes[node.inputs[0]]).op in ("srem", "urem"):
                divisor = nodes[inner.inputs[1]].data
                if nodes[inner.inputs[0]].op == "get_program_id" and divisor is not None and (in_group := int(divisor.reshape(-1)[0])) > 0:
                    yield node, in_group


def _columns_of_group(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> tuple[int | None, str] | None:
    """Groups of row tiles that are taken to have more, or fewer, columns of tiles than Y has."""
    rows, columns = tiles.count
    for node, in_group in _places_in_group(run):
        inner = run.tape.nodes[node.inputs[0]]
        for size, counted in _factors(run, run.tape.nodes[inner.inputs[1]]):
            begun = [(program, tile) for program, tile in own if program // in_group * size < rows]
            number = in_group // max(size, 1)
            if size > 1 and number != columns and begun and all(
                tile == _tile_of(program, in_group, size, rows, begins=size) for program, tile in begun
            ):
                by = _divisor(run, counted)
                wide = f"column tile{'s' if number > 1 else ''} wide" + (f", counted by {by}" if by not in (None, tiles.size[1]) else "")
                return counted.line, (f"a group of {size} row tiles is taken to be {number} {wide}; Y has {columns}, of {tiles.size[1]} "
                                      "columns each")  # fmt: skip
    return None


def _factors(run: Run, product: Node) -> Iterator[tuple[int, Node]]:
    """The two ways to take the number of programs in a group for a number of row tiles and a node, the number of column tiles."""
    if product.op == "mul":
        first, second = (run.tape.nodes[i] for i in product.inputs[:2])
        for size, counted in ((first, second), (second, first)):
            if size.data is not None:
                yield int(size.data.reshape(-1)[0]), counted


def _divisor(run: Run, counted: Node) -> int | None:
    """By what a number of tiles was divided out; None where it comes from no division."""
    divisor = run.tape.nodes[counted.inputs[1]].data if counted.op in ("idiv", "sdiv", "udiv") else None
    return None if divisor is None else int(divisor.reshape(-1)[0])


def _last_group(run: Run, tiles: TileMap) -> tuple[int | None, str] | None:
    """Programs in groups of row tiles, the last of which is smaller than the others: the line, and the words."""
    if not any(tile[0] >= tiles.count[0] for tile in tiles.meant.values()):
        return None
    for node, _ in _places_in_group(run):
        divisor = run.tape.nodes[node.inputs[1]].data
        size = 0 if divisor is None else int(divisor.reshape(-1)[0])
        if size > 1 and tiles.count[0] % size:
            return node.line, (f"every group is taken to have {size} row tiles; Y has {tiles.count[0]}, so the last "
                               f"group has {tiles.count[0] % size}")  # fmt: skip
    return None


def _first_of_group(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> tuple[int | None, str] | None:
    """Groups that begin with the row tile of their number, and not with as many times their size."""
    rows, columns = tiles.count
    nodes = run.tape.nodes
    for numbers in run.tape.programs.values():
        for number in numbers:
            node = nodes[number]
            divisor = nodes[node.inputs[1]].data if node.op in ("idiv", "sdiv", "udiv") else None
            if divisor is None or nodes[node.inputs[0]].op != "get_program_id":
                continue
            in_group = int(divisor.reshape(-1)[0])
            size = in_group // columns
            if size > 1 and in_group % columns == 0 and size < rows and all(
                tile == _tile_of(program, in_group, size, rows) for program, tile in own
            ):
                return node.line, (f"the first row tile of a group of {size} is taken to be the number of the group, and not {size} times "
                                   "that number")  # fmt: skip
    return None


def _tile_of(program: int, in_group: int, size: int, rows: int, begins: int = 1) -> Tile:
    """The tile of a program whose group begins with the row tile of `begins` times its number: `size` if it is right, 0 for the first."""
    group, place = divmod(program, in_group)
    height = max(1, min(size, rows - group * size))
    return group * begins + place % height, place // height
