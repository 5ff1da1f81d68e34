"""Do the tiles of programs that load and store the same rows and columns begin where tiles of Y do, and run upwards from there?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.diagnosis.ledger.pairs import Run, hull, stores_to_output
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tile_map import Tile
from grader.labs.divergence import TILE, Divergence
from grader.labs.stages import Operand

NOUNS = ("row", "column")


@dataclass(frozen=True)
class _Begin:
    """Where the tile of a recorded program begins in Y, how large it is, the steps from lane to lane along its rows and columns, and the
    axes of the store along which these run."""

    program: int
    store: Node
    at: tuple[int, int]
    size: Tile
    steps: tuple[int, int]
    axes: tuple[int, int]

    def stored(self, axis: int) -> int:
        """How many rows (0), or columns (1), of the tile have lanes that are stored."""
        return 0 if self.store.active is None else int(self.store.active.any(axis=self.axes[1 - axis]).sum())


def look(run: Run) -> Divergence | None:
    """Tiles that begin between those of Y, or run downwards, or come back to their first rows."""
    if wrapped := _wrapped(run):
        return wrapped
    begins = [begin for program in run.tape.programs if (begin := _begin(run, program))]
    if not begins or len({begin.size for begin in begins}) > 1:
        return None
    return next((found for axis in (0, 1) if (found := _downwards(run, begins, axis) or _between(run, begins, axis))), None)


def _wrapped(run: Run) -> Divergence | None:
    """Stores whose rows, or columns, behind the last one are brought back to the first ones."""
    y = run.problem.tensors[run.lab.output]
    for program in run.tape.programs:
        for store in stores_to_output(run, program):
            if store.offsets is None or store.active is None or store.offsets.ndim != 2:
                continue
            for along in (0, 1):
                lanes, active = np.take(store.offsets, 0, axis=1 - along), np.asarray(store.active.any(axis=1 - along))
                for axis, noun in enumerate(NOUNS):
                    again = _again(lanes, active, run.sizes[axis], int(y.stride(axis)))
                    if again:
                        return _back(run, program, store, axis, noun, again)
    return None


def _again(lanes: Array, active: Array, count: int, stride: int) -> int:
    """How many lanes of a store, `stride` elements apart, go on with the first of `count` rows or columns behind the last; 0: none."""
    steps = np.diff(lanes)
    back = np.flatnonzero(steps == stride * (1 - count))
    if len(back) != 1 or count < 2 or (np.delete(steps, back) != stride).any() or not active[back[0] + 1 :].any():
        return 0
    return len(lanes) - int(back[0]) - 1


def _back(run: Run, program: int, store: Node, axis: int, noun: str, again: int) -> Divergence:
    size = "MN"[axis]
    return Divergence(
        f"store_brings_{noun}s_back", TILE, store.line, f"behind the last {noun} of Y the tile goes on with {noun}s 0:{again}",
        f"a mask that leaves out {noun}s from {size} = {run.sizes[axis]} on",
        f"{noun}s behind the last one are brought back to the first ones (by % {size}, for instance), and are stored, or added, once more: "
        f"a store needs the {noun}s as they are, and a mask", program, begins=True,
    )  # fmt: skip


def _begin(run: Run, program: int) -> _Begin | None:
    """None where what is loaded does not bear out the addresses of the one store, or they are no tile."""
    stores = stores_to_output(run, program)
    if len(stores) != 1 or (store := stores[0]).offsets is None or store.offsets.ndim != 2 or min(store.shape) < 2:
        return None
    strides = tuple(int(stride) for stride in run.problem.tensors[run.lab.output].stride())
    corner = int(store.offsets[0, 0])
    moves = [int(store.offsets[1, 0]) - corner, int(store.offsets[0, 1]) - corner]
    axes = (0, 1) if [abs(move) for move in moves] == [*strides] else (1, 0)  # of rows and of columns
    if [abs(moves[axis]) for axis in axes] != [*strides]:
        return None
    row, column = (_first_row(run, program, side) for side in (run.stages.left, run.stages.right))
    if row is None or column is None or row * strides[0] + column * strides[1] != corner:
        return None
    steps = (moves[axes[0]] // strides[0], moves[axes[1]] // strides[1])
    return _Begin(program, store, (row, column), (store.shape[axes[0]], store.shape[axes[1]]), steps, axes)


def _first_row(run: Run, program: int, side: Operand) -> int | None:
    """The row of an operand that the first lane of the first load of its tensor asks for."""
    for node in run.tape.accesses[program]:
        if node.op == "load" and node.tensor == side.tensor and node.offsets is not None and node.offsets.size:
            row, _ = side.place(run.problem, node.offsets.reshape(-1)[:1])
            return int(row[0])
    return None


def _downwards(run: Run, begins: list[_Begin], axis: int) -> Divergence | None:
    one = next((begin for begin in begins if begin.steps[axis] < 0), None)
    if one is None:
        return None
    noun, at, size = NOUNS[axis], one.at[axis], one.size[axis]
    return Divergence(
        "tile_downwards", TILE, one.store.line, f"the {size} {noun}s of its tile run from {at} down to {at - size + 1}",
        f"{noun}s {hull(np.arange(at, at + size))}", f"the {noun}s of a tile are counted down from its first one: the numbers of "
        "tl.arange are subtracted, and have to be added", one.program, begins=True,
    )  # fmt: skip


def _between(run: Run, begins: list[_Begin], axis: int) -> Divergence | None:
    """Tiles whose first row, or column, is no multiple of their size."""
    noun, size = NOUNS[axis], begins[0].size[axis]
    if not any(begin.stored(axis) > 1 for begin in begins):
        return None  # of a tile of several rows one is stored
    first = {begin.at[axis]: begin for begin in reversed(begins)}
    places = sorted(first)
    astray = [at for at in places if at % size]
    if not astray or min(places) < 0:
        return None
    name, one = f"{noun}_tile_offset_forgotten", first[astray[0]]
    found, expected = f"its tile begins with {noun} {astray[0]} of Y", f"a multiple of the {size} {noun}s that a tile has"
    steps = set(np.diff(places).tolist())
    if places[0] == 0 and steps == {1}:
        reason = f"the {noun}s of a tile begin at the number of the tile, which is not multiplied by the number of its {noun}s"
    elif len(steps) == 1 and places[0] == 0:
        reason = f"the tiles of neighbouring programs are {steps.pop()} {noun}s apart, and {size} {noun}s {'high' if axis == 0 else 'wide'}"
    else:
        reason = f"the {noun}s of a tile do not begin at its number times the number of its {noun}s"
    return Divergence(name, TILE, one.store.line, found, expected, reason, one.program, begins=True)

