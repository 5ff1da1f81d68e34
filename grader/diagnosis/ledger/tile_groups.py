"""Where programs go through row tiles in groups, what is wrong with the groups? The line and the words."""

from __future__ import annotations

from collections.abc import Sequence

from grader.diagnosis.ledger.pairs import Run
from grader.diagnosis.ledger.tile_map import Tile, TileMap


def look(run: Run, tiles: TileMap, own: Sequence[tuple[int, Tile]]) -> tuple[int | None, str] | None:
    """own: programs and the tiles that they store or address."""
    return _last_group(run, tiles) or _first_of_group(run, tiles, own)


def _last_group(run: Run, tiles: TileMap) -> tuple[int | None, str] | None:
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


def _tile_of(program: int, in_group: int, size: int, rows: int) -> Tile:
    """The tile of a program whose group begins with the row tile of its number."""
    group, place = divmod(program, in_group)
    height = max(1, min(size, rows - group * size))
    return group + place % height, place // height
