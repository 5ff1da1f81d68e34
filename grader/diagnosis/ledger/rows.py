"""Are the rows of X, and the channels of W, those of the elements of Y that get the result?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.masks import compared, lets_through
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, expected_rows, hull, places_in_output, side_words, span
from grader.diagnosis.ledger.provenance import Array
from grader.labs.divergence import ADVANCE, LOAD, PAIR, Divergence

BEHIND = 1 << 29
"""No tensor has so many rows: a lab gives them to elements behind its last one."""


def look(run: Run, pairs: Pairs, side: Side) -> Divergence | None:
    """Rows of X, or channels of W, that are not those of the elements of Y that get the result."""
    expected = np.broadcast_to(expected_rows(pairs, side), side.row.shape)
    blocks = run.stages.needed is not None and side is pairs.right
    use = pairs.live if blocks else side.live & pairs.alive  # a block that meets masked zeros is no block of the product
    bad = use & (side.row != expected)
    if not bad.any() or (not blocks and bad[use].mean() < 0.25):
        return None
    if not blocks and not bad[:, pairs.turn == 0].any():
        return _behind_row(run, pairs, side, bad) or _astray(run, pairs, side, bad)
    e, p = (int(i) for i in np.argwhere(bad)[0])
    turn = int(pairs.turn[p])
    here = use & (pairs.turn == turn)[None, :]
    if not blocks and len(np.unique(side.row[e][here[e]])) > 2:
        return _displaced(run, pairs, side, e, p)
    if blocks and (other_row := _other_row(run, pairs, side, bad)):
        return other_row
    if not blocks and (brought_back := _brought_back(run, pairs, side, use)):
        return brought_back
    letter, axis = side.operand.letter, "rows" if side is pairs.left else "channels"
    held, stored = hull(side.row[here]), hull(expected[here])
    what = "what lies behind the last block" if side.row[here].max() >= BEHIND else f"{_counted(axis, held)} of {letter}"
    line = run.line_of_load(int(side.node[p]), side.operand.tensor)
    target = f"Y[{stored}, ...]" if side is pairs.left else f"Y[..., {stored}]"
    names = ("first_rows_everywhere or row", "first_columns_everywhere or column")
    if side.operand.unit > 1 and (side.row == expected // side.operand.unit)[use].all():
        name = "packed_along_n"
        reason = f"channel n // {side.operand.unit} is taken for channel n: a word holds neighbouring k of one channel"
    elif blocks:
        name, reason = "wrong_block", "the blocks that are multiplied are not those of the block row of Y"
    else:
        name, reason = f"{names[side is pairs.right]}_tile_offset_forgotten", f"{axis} of {letter} and of Y are not those of the same tile"
    return Divergence(
        name, LOAD, line,
        f"the {side_words(side, pairs)} operand holds {what}, and the result goes to {target}",
        _counted(axis, stored), reason, pairs.program, turn,
    )  # fmt: skip


def _brought_back(run: Run, pairs: Pairs, side: Side, use: Array) -> Divergence | None:
    """The last rows of a tile that are all taken from one row, where those before them are their own: a limit that is not the tensor's."""
    axis, letter, noun = (0, "M", "row") if side is pairs.left else (1, "N", "channel")
    places = places_in_output(run, pairs.store)[:2]
    inside = (places[0] >= 0) & (places[0] < run.sizes[0]) & (places[1] >= 0) & (places[1] < run.sizes[1])
    of_tile = [place[inside] for place in places]
    wrong = run.wrong[of_tile[0], of_tile[1]]
    amiss = np.unique(of_tile[axis][wrong])
    right = np.setdiff1d(of_tile[axis], amiss)
    taken = np.unique(side.row[use])
    if not len(right) or len(taken) != 1 or len(amiss) < 2 or right.max() > amiss.min():
        return None
    p = int(np.flatnonzero(use.any(axis=0))[0])
    return Divergence(
        "brought_back_too_early", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"{noun}s {hull(amiss)} of {side.operand.letter} are brought back to {noun} {int(taken[0])}, and those before them are not",
        f"every {noun} below {letter} = {run.sizes[axis]} itself", f"the {noun}s are compared with another limit than {letter}",
        pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _counted(nouns: str, numbers: str) -> str:
    """Rows, or channels, by their numbers; one of them in the singular."""
    return f"{nouns} {numbers}" if ":" in numbers else f"{nouns.removesuffix('s')} {numbers}"


def _other_row(run: Run, pairs: Pairs, side: Side, bad: Array) -> Divergence | None:
    """Elements of Y that get other rows of a block than theirs, whichever block it is. The tensor of blocks is [blocks, rows, columns]."""
    tensor = run.problem.tensors[side.operand.tensor]
    rows, apart = tensor.shape[1], tensor.stride(1)
    expected = np.broadcast_to(expected_rows(pairs, side), side.row.shape)
    inside = side.offset // apart % rows
    amiss = bad & (inside != expected % rows)
    if not amiss.any():
        return None
    e, p = (int(i) for i in np.argwhere(amiss)[0])
    same = bool((side.row[bad] // rows == expected[bad] // rows).all())
    reason = "the block belongs to the block row of Y, but its channels do not come to the columns that are theirs" if same else (
        "the addresses inside a block lead to other rows of it, or out of it: row r of a block belongs to column r of its "
        "block row")  # fmt: skip
    return Divergence(
        "wrong_block", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"for Y[{pairs.m[e]}, {pairs.n[e]}] the {side_words(side, pairs)} operand holds an element of row {inside[e, p]} of a block",
        f"one of row {expected[e, p] % rows}", reason, pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _displaced(run: Run, pairs: Pairs, side: Side, e: int, p: int) -> Divergence:
    """One element of Y meets several rows of an operand in one turn: they lie in other places than they are taken from."""
    place = int(p - np.flatnonzero(pairs.term == pairs.term[p])[0])
    letter, noun = side.operand.letter, "row" if side is pairs.left else "channel"
    own, turned_at = int(expected_rows(pairs, side)[e, 0]), reshaped(run, pairs, side)
    reason = f"the elements of the tile of {letter} lie in other places than they are multiplied from"
    turned = ": a reshape keeps the order in which they lie, tl.trans exchanges the axes" if turned_at is not None else ""
    return Divergence(
        "elements_displaced", PAIR, turned_at or pairs.flow.terms[int(pairs.term[p])].line,
        f"for Y[{pairs.m[e]}, {pairs.n[e]}], place {place} of the summed axis holds {letter}[{side.row[e, p]}, {side.k[e, p]}]",
        f"an element of {noun} {own}", reason + turned, pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def reshaped(run: Run, pairs: Pairs, side: Side) -> int | None:
    """The line of a reshape between an operand and the load of its elements."""
    way = run.way_to_load(int(side.node[0]), side.operand.tensor) if len(side.node) else ()
    return next((node.line for node in way if node.op == "reshape"), None)


def _behind_row(run: Run, pairs: Pairs, side: Side, bad: Array) -> Divergence | None:
    """Elements of other rows all of which lie where k goes on behind the end of their own: of this a mask tells, and not the rows."""
    if len(side.operand.strides) != 2 or side.operand.unit > 1:
        return None
    along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
    k, rest = np.divmod(side.offset - expected_rows(pairs, side) * along_row, along_k)
    own = np.where(side.asked & ~bad, side.k, -1).max(axis=1, keepdims=True)
    within = side.asked.sum(axis=1, keepdims=True)
    if not ((k >= run.sizes[2]) & (k <= own + within) & (rest == 0))[bad].all():
        return None
    p = int(np.flatnonzero(bad.any(axis=0))[0])
    return Divergence(
        "k_tail_unmasked", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"the {side_words(side, pairs)} operand holds k = {span(k[bad])}, which lies behind the row in memory"
        f"{compared(run, side, p)}",
        f"zeros from K = {run.sizes[2]} on", lets_through(run, side, p, k[bad]) or "what lies behind the end of K is not masked",
        pairs.program, int(pairs.turn[p]),
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
