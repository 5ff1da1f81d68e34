"""Do the operands hold the right elements? Strides, blocks and rows against those that are stored; then the summed index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger import summed
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, hull, places_in_output, side_words, span
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.tape import Node
from grader.diagnosis.ledger.tiles import store_tile
from grader.labs.divergence import ADVANCE, LOAD, LOOP, PAIR, STORE, SUM, Divergence
from grader.labs.stages import Blocks, Rule, RuleMatches


def look(run: Run, pairs: Pairs, rules: frozenset[Rule], *, whole: bool) -> list[Divergence]:
    """What is wrong with the places that the operands' elements come from, in the order of the flow.

    rules: of the lab's, those that all programs follow (see `followed`). whole: this store holds the sum over all of
    K, not a slice of it.
    """
    if not pairs.turn.size:
        return _no_turn(run, pairs)
    overrun = _overrun(run, pairs)
    if overrun:
        return [overrun]
    strides = [finding for side in (pairs.left, pairs.right) if (finding := _strides(run, pairs, side))]
    if strides:
        return strides
    blocks = _blocks(run, pairs, rules)
    if blocks and all(rule.aspect == "inside" for rule in rules):  # the right blocks, so that their number can be looked at
        return [*blocks, *(one for one in summed.look(run, pairs, whole=whole) if one.rank == LOOP)]
    if blocks:
        return blocks
    rows = [finding for side in (pairs.left, pairs.right) if (finding := _rows(run, pairs, side))]
    if rows:
        return rows
    return summed.look(run, pairs, whole=whole)


def _overrun(run: Run, pairs: Pairs) -> Divergence | None:
    """A slice of K that goes on behind K on both sides alike: in memory the next rows lie there."""
    if run.config.split_k == 1 or not (pairs.left.operand.strides and pairs.right.operand.strides):
        return None
    both = pairs.left.live & pairs.right.live & pairs.alive
    k, other = (_k_of_own_row(run, pairs, side) for side in (pairs.left, pairs.right))
    unit = pairs.right.operand.unit
    behind = both & (k >= run.sizes[2])
    if k.size == 0 or not behind.any() or not (k[both] // unit == other[both] // unit).all():
        return None
    p = int(np.flatnonzero(behind.any(axis=0))[0])
    return Divergence(
        "slice_unmasked", LOAD, run.line_of_load(int(pairs.left.node[p]), pairs.left.operand.tensor),
        f"both operands hold k = {span(k[behind])}, which K = {run.sizes[2]} does not have", f"zeros from K = {run.sizes[2]} on",
        "what a slice has behind the end of K is not masked, and memory holds other rows there", pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _k_of_own_row(run: Run, pairs: Pairs, side: Side) -> Array:
    """k of the elements of a side if they are counted from the beginning of the row that belongs to them; -1 where they cannot be."""
    along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
    k, rest = np.divmod(side.offset - expected_rows(pairs, side) * along_row, along_k)
    found: Array = np.where((rest == 0) & (k >= 0), k * side.operand.unit, -1)
    return found


def _no_turn(run: Run, pairs: Pairs) -> list[Divergence]:
    """Nothing is multiplied for elements of Y that have blocks."""
    tile, (_, n, _) = store_tile(run, pairs.store), places_in_output(run, pairs.store)
    if run.stages.needed is None or tile is None or n[0] % tile[1]:
        return []
    needed = run.stages.needed(run.problem)[np.clip(pairs.n, 0, run.sizes[1] - 1)].any(axis=1)
    if not needed.any():
        return []
    names = "block_count_as_end or last_block_dropped or first_block_dropped or at_most_n_blocks or crow_without_leading_zero"
    return [Divergence(
        names, LOOP, pairs.store.line,
        f"nothing is multiplied for Y[..., {hull(pairs.n)}]", "every block of the row",
        "the loop makes no turn for a block row that has blocks", pairs.program,
    )]  # fmt: skip


def misplaced(run: Run, followed: Sequence[Pairs]) -> tuple[Divergence, tuple[int, int]] | None:
    """Tiles of Y stored by other strides than Y's, which some program shows beyond doubt: the finding and the strides used.

    The operands of such a tile belong together, and to other places than those where their sums lie.
    """
    return next((found for pairs in followed if (found := _stored(run, pairs))), None)


def beside(run: Run, followed: Sequence[Pairs]) -> tuple[Divergence, int] | None:
    """Tiles of Y that are stored where none begins: the finding, and the axis of Y along which they are."""
    found = ((finding, axis) for pairs in followed for axis in (0, 1) if (finding := _beside(run, pairs, axis)))
    return next(found, None)


def moved_back(pairs: Pairs, axis: int) -> Pairs:
    """The pairs of a tile that was stored beside its place along an axis, for the elements of Y that they were meant for."""
    meant = _of_operands(pairs)
    if meant is None:
        return pairs
    return replace(pairs, m=meant[0]) if axis == 0 else replace(pairs, n=meant[1])


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


def _stored(run: Run, pairs: Pairs) -> tuple[Divergence, tuple[int, int]] | None:
    meant = _of_operands(pairs)
    if meant is None:
        return _exchanged(run, pairs)
    m, n = meant
    offsets = _offsets(pairs)
    y = run.problem.tensors[run.lab.output]
    own = (int(y.stride(0)), int(y.stride(1)))
    if (offsets == m * own[0] + n * own[1]).all():
        return None
    matrix = np.stack([m, n], axis=1).astype(np.float64)
    if np.linalg.matrix_rank(matrix) < 2:
        return None
    found, *_ = np.linalg.lstsq(matrix, offsets.astype(np.float64), rcond=None)
    used = (round(float(found[0])), round(float(found[1])))
    if np.abs(matrix @ np.round(found) - offsets).max() > 1e-6 or used == own:
        return _exchanged(run, pairs)
    axis = 0 if used[0] != own[0] else 1
    if len(set((m, n)[axis].tolist())) == 1 and not _size_called(run, used[axis]):
        return None  # one row or column may as well be another one, by the right stride
    if used == own[::-1]:
        return _swapped(run, pairs, own)
    if used[0] != own[0] and used[1] != own[1]:
        name = "y_column_major"
        reason = "Y is stored by columns, where its strides say by rows"
    else:
        name = f"ignores_stride_y{'mn'[axis]}"
        reason = f"stride_y{'mn'[axis]} is not used"
    elements = "1 element" if used[axis] == 1 else f"{used[axis]}{_size_called(run, used[axis])} elements"
    return Divergence(
        name, STORE, pairs.store.line, f"neighbouring {('rows', 'columns')[axis]} of Y are stored {elements} apart",
        f"stride_y{'mn'[axis]} = {own[axis]}", reason, pairs.program, strides=True,
    ), used  # fmt: skip


def _swapped(run: Run, pairs: Pairs, own: tuple[int, int]) -> tuple[Divergence, tuple[int, int]]:
    elements = "1 element" if own[1] == 1 else f"{own[1]}{_size_called(run, own[1])} elements"
    return Divergence(
        "y_strides_swapped or y_column_major", STORE, pairs.store.line, f"neighbouring rows of Y are stored {elements} apart",
        f"stride_ym = {own[0]}", "the two strides of Y are exchanged in the addresses of the store", pairs.program, strides=True,
    ), own[::-1]  # fmt: skip


def _exchanged(run: Run, pairs: Pairs) -> tuple[Divergence, tuple[int, int]] | None:
    """Strides exchanged, by the rows of X alone: W is wrong in ways of its own."""
    rows, offsets = _rows_of(pairs.left, pairs), pairs.store.offsets
    y = run.problem.tensors[run.lab.output]
    own = (int(y.stride(0)), int(y.stride(1)))
    if rows is None or offsets is None or len(pairs.store.shape) != 2 or own[0] == own[1]:
        return None
    places = np.unravel_index(pairs.flow.lanes, pairs.store.shape)
    for axis in (0, 1):
        steps = [np.unique(np.diff(offsets, axis=a)) for a in (axis, 1 - axis)]
        along = np.unique(rows - places[axis])
        if len(along) == 1 and len(np.unique(rows)) > 1 and all(len(step) == 1 for step in steps):
            return _swapped(run, pairs, own) if (int(steps[0][0]), int(steps[1][0])) == own[::-1] else None
    return None


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
    if not between or not np.isin(np.flatnonzero(needed), left.k[0][own[0]]).all():
        return None
    e, p = (int(i) for i in np.argwhere(both & ~own)[0])
    return Divergence(
        "accumulator_not_reset", SUM, pairs.flow.terms[int(pairs.term[p])].line,
        f"the sum for Y[{pairs.m[e]}, {pairs.n[e]}] has X[{left.row[e, p]}, {left.k[e, p]}] W[{right.row[e, p]}, {right.k[e, p]}] in it, "
        f"which belongs to a tile that the program stored before",
        "a sum that begins with zero for each tile",
        "the accumulator still holds the sum of the tile before: it is set to zero once, not for each tile", pairs.program,
    )  # fmt: skip


def expected_rows(pairs: Pairs, side: Side) -> Array:
    """[E, 1]: the row of an operand that belongs to each element of Y."""
    return (pairs.m if side is pairs.left else pairs.n)[:, None]


def _other(side: Side, pairs: Pairs) -> Side:
    return pairs.right if side is pairs.left else pairs.left


def _strides(run: Run, pairs: Pairs, side: Side) -> Divergence | None:
    """A tensor walked by other strides than its own: its offsets are linear in what they should be, with other factors.

    Of pointers that then move on by right steps only the first turn is linear in this sense.
    """
    if not side.operand.strides:
        return None
    found = _other_strides(run, pairs, side, pairs.turn >= 0)
    return found if found or _reshaped(run, pairs, side) else _other_strides(run, pairs, side, pairs.turn == 0)


def _other_strides(run: Run, pairs: Pairs, side: Side, turns: Array) -> Divergence | None:
    """The strides that explain the addresses in some turns, where they are not the tensor's. turns: bool [P]."""
    other = _other(side, pairs)
    unit = side.operand.unit
    use = side.asked & side.live & other.live & pairs.alive & turns
    k = _guessed_k(pairs, other)
    row = np.broadcast_to(expected_rows(pairs, side), side.k.shape)
    right = (side.row == row) & (side.k // unit == k // unit)
    if not use.any() or right[use].mean() > 0.5:
        return None
    matrix = np.stack([row[use], k[use] // unit, np.ones(int(use.sum()))], axis=1).astype(np.float64)
    offset, of_rows = side.offset[use].astype(np.float64), run.problem.scalars[side.operand.strides[0]]
    one_row = bool((row[use] == row[use][0]).all())
    if one_row:  # of one row, as a program without tl.dot has it, the row's stride shows in its place alone
        matrix, offset = matrix[:, 1:], offset - of_rows * row[use]
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return None
    found, *_ = np.linalg.lstsq(matrix, offset, rcond=None)
    if np.abs(matrix @ np.round(found) - offset).max() > 1e-6:
        return None
    along_row, along_k, start = (of_rows, *found.round().astype(int)) if one_row else found.round().astype(int)
    own_strides = tuple(run.problem.scalars[name] for name in side.operand.strides)
    if one_row and row[use][0] and start == (own_strides[1] - of_rows) * row[use][0] and along_k == of_rows:
        along_row, start = own_strides[1], 0
    if start:
        return None
    swapped = {along_row, along_k} == set(own_strides)
    for name, used, own, letter in zip(side.operand.strides, (along_row, along_k), own_strides, _neighbours(pairs, side), strict=True):
        if used != own:
            named = _size_called(run, used, "K" if side is pairs.left else "N")
            elements = "1 element" if used == 1 else f"{used}{named} elements"
            reason = f"the two strides of {side.operand.letter} are exchanged" if swapped else f"{name} is not used"
            return Divergence(_stride_name(run, name, used, swapped), LOAD, run.line_of_load(int(side.node[0]), side.operand.tensor),
                           f"neighbouring {letter} are taken to be {elements} apart", f"{name} = {own}",
                           reason, pairs.program, strides=True)  # fmt: skip
    return None


def _neighbours(pairs: Pairs, side: Side) -> tuple[str, str]:
    """What the two strides of a side lie between."""
    return ("rows of X", "columns of X") if side is pairs.left else ("channels of W", "k of W")


def _guessed_k(pairs: Pairs, side: Side) -> Array:
    """k of a side; inside a word, which holds several, by their order."""
    if side.operand.unit == 1:
        return side.k
    starts = np.searchsorted(pairs.term, pairs.term)
    k: Array = side.k + (np.arange(len(pairs.term)) - starts) % side.operand.unit
    return k


def _size_called(run: Run, value: int, first: str = "N") -> str:
    """The size or stride that a number is, where it is one; `first` where several are alike."""
    names = [name for name in (first, "M", "N", "K") if run.problem.scalars[name] == value]
    names += [name for name, own in run.problem.scalars.items() if own == value and name not in names and value > 1]
    return f" (= {names[0]})" if names and value > 1 else ""


def _stride_name(run: Run, name: str, used: int, swapped: bool) -> str:
    if swapped and name.startswith("stride_w"):
        return "weight_strides_swapped or weight_row_major"
    if name.startswith("stride_x"):
        N, K = run.problem.scalars["N"], run.problem.scalars["K"]
        return f"ignores_{name}" if used in (1, K) else "row_length_n" if used == N else f"ignores_{name}"
    if name == "stride_wn" and used == run.problem.scalars["K"] and run.problem.scalars["stride_wk"] == 1:
        return "ignores_stride_wn"
    if name.startswith("stride_w"):
        return "weight_row_major or words_row_major_in_n"
    return f"ignores_{name}"


def followed(run: Run, programs: Sequence[Pairs]) -> frozenset[Rule]:
    """The lab's rules that all programs follow whose pairs are wrong in the rule's aspect, one of them tellingly.

    A rule that a program follows by chance is not followed by those of other rows and columns of tiles.
    """
    found = [bad[1] for pairs in programs if (bad := _bad_blocks(run, pairs))]
    every: set[Rule] = set()
    for rule in {replace(rule, telling=True) for rules in found for rule in rules.holding}:
        asked = [rules for rules in found if rule.aspect in rules.asked]
        alike = [[other for other in rules.holding if replace(other, telling=True) == rule] for rules in asked]
        if all(alike) and any(other.telling for others in alike for other in others):
            every.add(rule)
    return frozenset(every)


def _bad_blocks(run: Run, pairs: Pairs) -> tuple[Array, RuleMatches] | None:
    left, right = pairs.left, pairs.right
    if run.stages.explain_block is None:
        return None
    live = left.live & right.live & pairs.alive
    unit = right.operand.unit
    bad = live & ((right.row != pairs.n[:, None]) | (right.k // unit != left.k // unit))
    if not bad.any():
        return None
    m, n = (np.broadcast_to(places[:, None], bad.shape) for places in (pairs.m, pairs.n))
    # A pair whose k happens to agree follows the mistaken rule too, so all pairs are asked, not the bad ones only.
    blocks = Blocks(m[live], n[live], left.k[live], right.offset[live], right.row[live], right.k[live])
    return bad, run.stages.explain_block(run.problem, blocks)


def _blocks(run: Run, pairs: Pairs, rules: frozenset[Rule]) -> list[Divergence]:
    """The lab's own rules for pairs that should not meet. Wrong rows explain wrong columns."""
    left, right = pairs.left, pairs.right
    found = _bad_blocks(run, pairs)
    if found is None:
        return []
    bad, holding = found
    findings = []
    named = [rule for rule in holding.holding if replace(rule, telling=True) in rules]
    aspects = dict.fromkeys(rule.aspect for rule in named)
    for aspect in aspects:
        if aspect == "columns" and "row" in aspects:
            continue
        alike = [rule for rule in named if rule.aspect == aspect]
        rule, names = alike[0], " or ".join(dict.fromkeys(rule.name for rule in alike))
        side = left if rule.name.startswith(("x_", "col_")) else right
        later = bad & (pairs.turn > 0)
        e, p = (int(i) for i in np.argwhere(later if rule.later and later.any() else bad)[0])
        findings.append(Divergence(
            names, LOAD if aspect == "row" or side is left else PAIR,
            _line(run, pairs, side, rule, p),
            f"for Y[{pairs.m[e]}, {pairs.n[e]}], X[{left.row[e, p]}, {left.k[e, p]}] meets {_element(run, right, e, p)}",
            f"W[{pairs.n[e]}, {left.k[e, p]}]", rule.reason, pairs.program, int(pairs.turn[p]),
        ))  # fmt: skip
    return findings


def _line(run: Run, pairs: Pairs, side: Side, rule: Rule, p: int) -> int | None:
    if rule.aspect == "inside":
        return pairs.flow.terms[int(pairs.term[p])].line
    if rule.tensor:
        nodes = (run.tape.nodes[number] for number in run.tape.programs[pairs.program])
        return next((node.line for node in nodes if node.op == "load" and node.tensor == rule.tensor), None)
    return run.line_of_load(int(side.node[p]), side.operand.tensor)


def _element(run: Run, side: Side, e: int, p: int) -> str:
    if side.row[e, p] >= 1 << 29:
        return f"what lies {side.offset[e, p]} elements behind the first of {side.operand.tensor.removesuffix('_ptr')}"
    return f"{side.operand.letter}[{side.row[e, p]}, {side.k[e, p]}]"


def _rows(run: Run, pairs: Pairs, side: Side) -> Divergence | None:
    """Rows of X, or channels of W, that are not those of the elements of Y that get the result."""
    expected = np.broadcast_to(expected_rows(pairs, side), side.row.shape)
    blocks = run.stages.needed is not None and side is pairs.right
    use = pairs.live if blocks else side.live & pairs.alive  # a block that meets masked zeros is no block of the product
    bad = use & (side.row != expected)
    if not use.any() or bad[use].mean() < 0.25:
        return None
    if not blocks and not bad[:, pairs.turn == 0].any():
        return _astray(run, pairs, side, bad)
    e, p = (int(i) for i in np.argwhere(bad)[0])
    turn = int(pairs.turn[p])
    here = use & (pairs.turn == turn)[None, :]
    if not blocks and len(np.unique(side.row[e][here[e]])) > 2:
        return _displaced(run, pairs, side, e, p)
    letter, axis = side.operand.letter, "rows" if side is pairs.left else "channels"
    held, stored = hull(side.row[here]), hull(expected[here])
    line = run.line_of_load(int(side.node[p]), side.operand.tensor)
    target = f"Y[{stored}, ...]" if side is pairs.left else f"Y[..., {stored}]"
    names = ("first_rows_everywhere or row", "first_columns_everywhere or column")
    if blocks:
        name, reason = "wrong_block", "the blocks that are multiplied are not those of the block row of Y"
    else:
        name, reason = f"{names[side is pairs.right]}_tile_offset_forgotten", f"{axis} of {letter} and of Y are not those of the same tile"
    return Divergence(
        name, LOAD, line,
        f"the {side_words(side, pairs)} operand holds {axis} {held} of {letter}, and the result goes to {target}",
        f"{axis} {stored}", reason, pairs.program, turn,
    )  # fmt: skip


def _displaced(run: Run, pairs: Pairs, side: Side, e: int, p: int) -> Divergence:
    """One element of Y meets several rows of an operand in one turn: they lie in other places than they are taken from."""
    place = int(p - np.flatnonzero(pairs.term == pairs.term[p])[0])
    letter, noun = side.operand.letter, "row" if side is pairs.left else "channel"
    own, reshaped = int(expected_rows(pairs, side)[e, 0]), _reshaped(run, pairs, side)
    reason = f"the elements of the tile of {letter} lie in other places than they are multiplied from"
    turned = ": a reshape keeps the order in which they lie, tl.trans exchanges the axes" if reshaped is not None else ""
    return Divergence(
        "elements_displaced", PAIR, reshaped or pairs.flow.terms[int(pairs.term[p])].line,
        f"for Y[{pairs.m[e]}, {pairs.n[e]}], place {place} of the summed axis holds {letter}[{side.row[e, p]}, {side.k[e, p]}]",
        f"an element of {noun} {own}", reason + turned, pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _reshaped(run: Run, pairs: Pairs, side: Side) -> int | None:
    """The line of a reshape between an operand and the load of its elements."""
    way = run.way_to_load(int(side.node[0]), side.operand.tensor) if len(side.node) else ()
    return next((node.line for node in way if node.op == "reshape"), None)


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
    return Divergence(
        f"{noun}_tile_offset_forgotten", STORE, pairs.store.line,
        f"{noun}s {right}:{right + size} of the product are stored from {noun} {begin} on", f"{noun} {right}",
        f"the {noun}s of the store begin at the number of the tile, or at another multiple than its size", pairs.program,
    )  # fmt: skip


def _astray(run: Run, pairs: Pairs, side: Side, bad: Array) -> Divergence:
    """Rows that were right in the first turn: the step along K led out of them."""
    turn = int(pairs.turn[bad.any(axis=0)].min())
    moved = _moved(pairs, side, turn)
    depth = len(np.unique(side.k[:, pairs.turn == 0])) // side.operand.unit
    along_k = run.problem.scalars[side.operand.strides[-1]] if side.operand.strides else 1
    letter, stride = side.operand.letter, side.operand.strides[-1] if side.operand.strides else ""
    ignored = bool(stride) and moved == turn * depth != turn * depth * along_k
    reason = (f"the pointers of {letter} move on by {depth} elements a turn, {depth} steps along K are {depth * along_k}: "
              f"{stride} is not used")  # fmt: skip
    if stride and not ignored and moved and moved % along_k:
        ignored, reason = True, f"the addresses of {letter} move on by {moved}, which is no multiple of {stride} = {along_k}"
    e, p = (int(i) for i in np.argwhere(bad & (pairs.turn == turn)[None, :])[0])
    return Divergence(
        f"ignores_{stride}" if ignored else "advanced_wrongly", ADVANCE,
        run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"the {side_words(side, pairs)} operand asks for {letter}[{side.row[e, p]}, {side.k[e, p]}]",
        f"row {int(expected_rows(pairs, side)[e, 0])} of {letter} in every turn",
        reason if ignored else f"the pointers of {letter} leave their rows from turn to turn", pairs.program, turn,
    )  # fmt: skip


def _moved(pairs: Pairs, side: Side, turn: int) -> int | None:
    """By how many elements the addresses of a turn lie behind those of the first; None where they differ."""
    first, later = side.offset[:, pairs.turn == 0], side.offset[:, pairs.turn == turn]
    if first.shape != later.shape:
        return None
    steps = np.unique(later - first)
    return int(steps[0]) if len(steps) == 1 else None
