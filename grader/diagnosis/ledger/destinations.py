"""Does each sum land in the element of Y that its operands belong to, and only there?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, Side, pairs_of, places_in_output
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.strides import size_called
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tile_map import store_tile
from grader.labs.divergence import STORE, SUM, Divergence

Misplaced = tuple[Divergence, tuple[int, int]]
"""What is wrong with the strides of a store, and the ones that were used."""


def misplaced(run: Run, followed: Sequence[Pairs]) -> Misplaced | None:
    """Tiles of Y stored by other strides than Y's, which some program shows beyond doubt: the finding and the strides used.

    The operands of such a tile belong together, and to other places than those where their sums lie.
    """
    return next((found for pairs in followed if (found := _stored(run, pairs))), None)


def beside(run: Run, followed: Sequence[Pairs]) -> tuple[Divergence, tuple[int, ...]] | None:
    """Tiles of Y that are stored where none begins: the finding, and the axes of Y along which they are."""
    found = ((finding, (axis,)) for pairs in followed for axis in (0, 1) if (finding := _beside(run, pairs, axis)))
    if one := next(found, None):
        return one
    exchanged = _exchanged(run, followed)
    return (exchanged, (0, 1)) if exchanged else None


def moved_back(run: Run, pairs: Pairs, axes: tuple[int, ...]) -> Pairs:
    """The pairs of a tile that was stored beside its place along some axes, for the elements of Y that they were meant for."""
    meant = _of_operands(pairs)
    if meant is not None:
        return replace(pairs, m=meant[0] if 0 in axes else pairs.m, n=meant[1] if 1 in axes else pairs.n)
    shift = _shift(pairs)
    if shift is None:
        return pairs
    by = [shift[axis] if axis in axes else 0 for axis in (0, 1)]
    there = (pairs.m - by[0] < run.sizes[0]) & (pairs.n - by[1] < run.sizes[1])
    if not there.all():
        pairs = pairs_of(run, pairs.program, pairs.store, pairs.flow.lanes[there])
    return replace(pairs, m=pairs.m - by[0], n=pairs.n - by[1])


def restored(run: Run, pairs: Pairs, used: tuple[int, int]) -> Pairs:
    """The pairs of a tile that was stored by the strides `used`, for the elements of Y that they were meant for."""
    m = _rows_of(pairs.left, pairs)
    if m is None:
        return pairs
    n, rest = np.divmod(_offsets(pairs) - m * used[0], used[1])
    return pairs if rest.any() else replace(pairs, m=m, n=n)


def _rows_of(side: Side, pairs: Pairs) -> Array | None:
    """[E]: the one row of an operand that each element of Y is made of; None where it is made of several, or none."""
    live = side.live & pairs.alive
    if not live.size or not live.any(axis=1).all():
        return None
    rows = side.row[np.arange(len(live)), live.argmax(axis=1)]
    return rows if ((side.row == rows[:, None]) | ~live).all() else None


def _of_operands(pairs: Pairs) -> tuple[Array, Array] | None:
    """[E], [E]: the one row of X and the one channel of W that the products of each element of Y come from."""
    left, right = pairs.left, pairs.right
    both = left.live & right.live & pairs.alive
    if not both.size or not both.any(axis=1).all():
        return None
    first = both.argmax(axis=1)
    each = np.arange(len(first))
    m, n = left.row[each, first], right.row[each, first]
    if not ((left.row == m[:, None]) | ~both).all() or not ((right.row == n[:, None]) | ~both).all():
        return None
    return m, n


def _offsets(pairs: Pairs) -> Array:
    assert pairs.store.offsets is not None
    offsets: Array = pairs.store.offsets.reshape(-1)[pairs.flow.lanes]
    return offsets


def _stored(run: Run, pairs: Pairs) -> Misplaced | None:
    meant = _of_operands(pairs)
    if meant is None:
        return _by_rows_alone(run, pairs)
    m, n = meant
    offsets, own = _offsets(pairs), _own_strides(run)
    if (offsets == m * own[0] + n * own[1]).all():
        return None
    matrix = np.stack([m, n], axis=1).astype(np.float64)
    if np.linalg.matrix_rank(matrix) < 2:
        return None
    found, *_ = np.linalg.lstsq(matrix, offsets.astype(np.float64), rcond=None)
    used = (round(float(found[0])), round(float(found[1])))
    if np.abs(matrix @ np.round(found) - offsets).max() > 1e-6 or used == own:
        return _by_rows_alone(run, pairs)
    axis = 0 if used[0] != own[0] else 1
    if len(set((m, n)[axis].tolist())) == 1 and not size_called(run, used[axis]):
        return None  # one row or column may as well be another one, by the right stride
    return _other_strides(run, pairs, used)


def _own_strides(run: Run) -> tuple[int, int]:
    y = run.problem.tensors[run.lab.output]
    return int(y.stride(0)), int(y.stride(1))


def _other_strides(run: Run, pairs: Pairs, used: tuple[int, int]) -> Misplaced:
    own = _own_strides(run)
    if used == own[::-1]:
        return _swapped(run, pairs, own)
    axis = 0 if used[0] != own[0] else 1
    name, reason = f"ignores_stride_y{'mn'[axis]}", f"stride_y{'mn'[axis]} is not used"
    if used[0] != own[0] and used[1] != own[1]:
        name, reason = "y_column_major", "Y is stored by columns, where its strides say by rows"
    elements = "1 element" if used[axis] == 1 else f"{used[axis]}{size_called(run, used[axis])} elements"
    return Divergence(
        name, STORE, pairs.store.line, f"neighbouring {('rows', 'columns')[axis]} of Y are stored {elements} apart",
        f"stride_y{'mn'[axis]} = {own[axis]}", reason, pairs.program, strides=True,
    ), used  # fmt: skip


def _swapped(run: Run, pairs: Pairs, own: tuple[int, int]) -> tuple[Divergence, tuple[int, int]]:
    elements = "1 element" if own[1] == 1 else f"{own[1]}{size_called(run, own[1])} elements"
    return Divergence(
        "y_strides_swapped or y_column_major", STORE, pairs.store.line, f"neighbouring rows of Y are stored {elements} apart",
        f"stride_ym = {own[0]}", "the two strides of Y are exchanged in the addresses of the store", pairs.program, strides=True,
    ), own[::-1]  # fmt: skip


def _by_rows_alone(run: Run, pairs: Pairs) -> Misplaced | None:
    """Other strides, by the rows of X alone: W is wrong in ways of its own. The stride of a row then has to be a size, or the column's."""
    rows, own = _rows_of(pairs.left, pairs), _own_strides(run)
    steps = None if rows is None or own[0] == own[1] else _steps(pairs, rows)
    if steps is None or steps == own:
        return None
    known = steps == own[::-1] or (steps[1] == own[1] and steps[0] in run.sizes)
    return _other_strides(run, pairs, steps) if known else None


def _steps(pairs: Pairs, rows: Array) -> tuple[int, int] | None:
    """By how much the addresses of a store move on along its rows, which are those of X, and along its columns. rows: [E]."""
    offsets = pairs.store.offsets
    if offsets is None or offsets.ndim != 2 or len(np.unique(rows)) < 2:
        return None
    places = np.unravel_index(pairs.flow.lanes, offsets.shape)
    axis = next((axis for axis in (0, 1) if len(np.unique(rows - places[axis])) == 1), None)
    if axis is None:
        return None
    along = [np.unique(np.diff(offsets, axis=each)) for each in (axis, 1 - axis)]
    return (int(along[0][0]), int(along[1][0])) if all(len(step) == 1 for step in along) else None


def left_over(run: Run, pairs: Pairs, stores: Sequence[Node]) -> Divergence | None:
    """The products of a tile that the program stored before, still in the sum of this one, whose own are all there."""
    left, right = pairs.left, pairs.right
    both = left.live & right.live & pairs.alive
    own = both & (left.row == pairs.m[:, None]) & (right.row == pairs.n[:, None])
    foreign_turns, own_turns = (np.unique(pairs.turn[pairs_of.any(axis=0)]) for pairs_of in (both & ~own, own))
    if not len(foreign_turns) or np.isin(own_turns, foreign_turns).any():
        return None
    nodes = sorted({term.node for term in pairs.flow.terms})
    last = nodes[int(foreign_turns[-1])]
    first = nodes[int(own_turns[0])] if len(own_turns) else pairs.store.number
    between = [store for store in stores if last < store.number < first]
    needed = np.ones(run.sizes[2], dtype=bool) if run.stages.needed is None else run.stages.needed(run.problem)[pairs.n[0]]
    complete = np.isin(np.flatnonzero(needed), left.k[0][own[0]]).all()
    if not between or not (complete or (len(own_turns) and _of_tiles_before(run, pairs, both & ~own, between))):
        return None
    e, p = (int(i) for i in np.argwhere(both & ~own)[0])
    return Divergence(
        "accumulator_not_reset", SUM, pairs.flow.terms[int(pairs.term[p])].line,
        f"the sum for Y[{pairs.m[e]}, {pairs.n[e]}] has X[{left.row[e, p]}, {left.k[e, p]}] W[{right.row[e, p]}, {right.k[e, p]}] in it, "
        f"which belongs to a tile that the program stored before",
        "a sum that begins with zero for each tile",
        "the accumulator still holds the sum of the tile before: it is set to zero once, not for each tile", pairs.program,
    )  # fmt: skip


def _of_tiles_before(run: Run, pairs: Pairs, foreign: Array, before: Sequence[Node]) -> bool:
    """Whether foreign products, bool [E, P], are those of the elements of Y that earlier stores put the same lanes in."""
    found = np.zeros(foreign.shape, dtype=bool)
    for store in before:
        m, n, _ = places_in_output(run, store)
        if len(m) > int(pairs.flow.lanes.max()):
            rows, columns = m[pairs.flow.lanes], n[pairs.flow.lanes]
            found |= (pairs.left.row == rows[:, None]) & (pairs.right.row == columns[:, None])
    return bool(found[foreign].all())


def _beside(run: Run, pairs: Pairs, axis: int) -> Divergence | None:
    """Whole tiles that are multiplied rightly and stored where no tile begins."""
    size = (store_tile(run, pairs.store) or (0, 0))[axis]
    meant, (m, n, _) = _of_operands(pairs), places_in_output(run, pairs.store)
    if meant is None or size < 2:
        return None
    begin = int((m, n)[axis][0])
    shift = np.unique((pairs.m, pairs.n)[axis] - meant[axis])
    if ((pairs.n, pairs.m)[axis] != meant[1 - axis]).any():
        return None  # beside along both axes: behind the end of its row a tile has the address of one in another row
    if len(shift) != 1 or begin % size == 0 or (begin - int(shift[0])) % size:
        return None
    noun, right = ("row", "column")[axis], begin - int(shift[0])
    if axis == 0 and (behind := _behind_last_column(run, pairs, int(shift[0]))):
        return behind
    return Divergence(
        f"{noun}_tile_offset_forgotten", STORE, pairs.store.line,
        f"{noun}s {right}:{right + size} of the product are stored from {noun} {begin} on", f"{noun} {right}",
        f"the {noun}s of the store begin at the number of the tile, or at another multiple than its size", pairs.program, begins=True,
    )  # fmt: skip


def _behind_last_column(run: Run, pairs: Pairs, rows: int) -> Divergence | None:
    """Tiles that lie so many rows too far because their columns begin behind the last one, by a multiple of a tile's columns."""
    (along_m, along_n), wide = _own_strides(run), (store_tile(run, pairs.store) or (0, 0))[1]
    if rows <= 0 or not wide or rows * along_m % (wide * along_n):
        return None
    begin = int(places_in_output(run, pairs.store)[1][0])
    return Divergence(
        "column_tile_offset_forgotten", STORE, pairs.store.line,
        f"columns {begin}:{begin + wide} of the product are stored from column {begin + rows * along_m // along_n} on, and Y has "
        f"N = {run.sizes[1]}", f"column {begin}",
        "the columns of the store begin behind the last one, where the next row lies in memory: they do not follow the number of the "
        "column tile", pairs.program,
    )  # fmt: skip


def _shift(pairs: Pairs) -> tuple[int, int] | None:
    """How far behind its rows of X and its channels of W a tile is stored, by the elements that have products; None where they differ."""
    both = pairs.left.live & pairs.right.live & pairs.alive
    each = np.flatnonzero(both.any(axis=1))
    if not len(each):
        return None
    first, found = both.argmax(axis=1)[each], []
    for own, side in ((pairs.m, pairs.left), (pairs.n, pairs.right)):
        rows = side.row[each, first]
        shift = np.unique(own[each] - rows)
        if len(shift) != 1 or ((side.row[each] != rows[:, None]) & both[each]).any():
            return None
        found.append(int(shift[0]))
    return found[0], found[1]


def _exchanged(run: Run, followed: Sequence[Pairs]) -> Divergence | None:
    """Tiles that are multiplied rightly and stored from the row that is their first column, and the column that is their first row."""
    apart = None
    for pairs in followed:
        shift, size, places = _shift(pairs), store_tile(run, pairs.store), places_in_output(run, pairs.store)
        if shift is None or size is None:
            return None
        stored = int(places[0][0]), int(places[1][0])
        right = stored[0] - shift[0], stored[1] - shift[1]
        if stored != right[::-1] or any(right[d] % size[d] for d in (0, 1)):
            return None
        if any(stored[d] % size[d] for d in (0, 1)):
            apart = apart or (pairs, size, right, stored)
    if apart is None:
        return None
    pairs, size, right, stored = apart
    rows, columns, at_rows, at_columns = (f"{at}:{at + size[d]}" for corner in (right, stored) for d, at in enumerate(corner))
    return Divergence(
        "tile_offsets_swapped", STORE, pairs.store.line,
        f"the product of rows {rows} of X and channels {columns} of W is stored in Y[{at_rows}, {at_columns}]", f"Y[{rows}, {columns}]",
        "the offset of the tile's rows and that of its columns are exchanged in the addresses of the store", pairs.program,
    )  # fmt: skip
