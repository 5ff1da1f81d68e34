"""Does the loop over K end where K does, and meet every k once?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.diagnosis.ledger.masks import compared, lets_through
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, side_words, span
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.turns import asked_by_turn, times_met
from grader.labs.divergence import ADVANCE, LOAD, LOOP, Divergence


def too_short(run: Run, pairs: Pairs, side: Side, e: int) -> list[Divergence]:
    """Of a side that moves on as it should, while the other does not: whether it ends before K does."""
    unit, need = side.operand.unit, np.ones(run.sizes[2], dtype=bool)
    missing = np.flatnonzero(np.repeat(times_met(side, pairs, e, run.sizes[2]) == 0, unit)[: run.sizes[2]])
    depth = len(np.unique(asked_by_turn(pairs, side, e)[0])) * unit
    ends = len(missing) and missing[-1] == run.sizes[2] - 1 and len(missing) == run.sizes[2] - missing[0] and missing[0]
    return [never_met(run, pairs, e, need, missing, depth)] if ends else []


def beyond_the_end(pairs: Pairs, e: int, K: int) -> Array:
    """bool [P]: the pairs beyond the last k that add something."""
    left, right, unit = pairs.left, pairs.right, pairs.right.operand.unit
    with np.errstate(all="ignore"):
        counts = ~(left.value[e] * right.value[e] == 0)  # NaN times zero counts too
    together = left.asked[e] & right.asked[e] & pairs.alive[e] & (left.k[e] // unit == right.k[e] // unit)
    beyond: Array = together & counts & ((left.live[e] & (left.k[e] >= K)) | (right.live[e] & (right.k[e] >= K)))
    return beyond


def behind_the_end(run: Run, pairs: Pairs, e: int, behind: Array) -> Divergence:
    K, turns = run.sizes[2], int(pairs.turn.max()) + 1
    asked = [np.concatenate([side.k[e][(pairs.turn == turn) & side.asked[e] & pairs.alive[e]] for side in (pairs.left, pairs.right)])
             for turn in range(turns)]  # fmt: skip
    past = [turn for turn, ks in enumerate(asked) if len(ks) and ks.min() >= K]
    if past and past == list(range(past[0], turns)):
        return Divergence(
            "loop_too_long", LOOP, pairs.flow.terms[-1].line,
            f"the loop makes {turns} turns, and multiplies what lies behind K = {K} in memory from turn {past[0]} on",
            f"{past[0]} turns", "the loop goes on behind the end of K", pairs.program, past[0],
        )  # fmt: skip
    side = pairs.left if (pairs.left.live[e] & behind).any() else pairs.right
    p = int(np.flatnonzero(behind)[0])
    return Divergence(
        "k_tail_unmasked", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"the {side_words(side, pairs)} operand holds k = {span(side.k[e][behind])}, which lies behind the row in memory"
        f"{compared(run, side, p)}",
        f"zeros from K = {K} on", lets_through(run, side, p, side.k[e][behind]) or "a partial last tile of K is not masked",
        pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def tail_again(run: Run, pairs: Pairs, e: int) -> Divergence | None:
    """Places behind K whose addresses were brought back into the row: what is read there adds to the sum, unless it is set to zero."""
    left, right, K = pairs.left, pairs.right, run.sizes[2]
    if run.stages.needed is not None:  # whose columns an index says
        return None
    for turn in range(int(pairs.turn.max()) + 1):
        here = np.flatnonzero((pairs.turn == turn) & left.asked[e] & pairs.alive[e])
        meant = left.k[e, here[:1]] + np.arange(len(here))
        behind = meant >= K
        if not behind.any() or behind.all() or (left.k[e, here] != meant)[~behind].any():
            continue
        again = here[behind]
        adds = left.live[e, again] & right.live[e, again] & (left.value[e, again] * right.value[e, again] != 0) & (left.k[e, again] < K)
        if adds.any() and any((left.k[e, again] == back).all() for back in (0, K - 1, meant[behind] - K)):
            return Divergence(
                "k_tail_unmasked", LOAD, run.line_of_load(int(left.node[again[0]]), left.operand.tensor),
                f"{len(again)} places behind K = {K} hold k = {span(left.k[e, again])} of X again, and add to the sum",
                f"zeros from K = {K} on",
                "an address behind the end of K is brought back into the row, and what is read there is not set to zero",
                pairs.program, turn,
            )  # fmt: skip
    return None


def round_k(run: Run, pairs: Pairs, e: int, need: Array) -> Divergence | None:
    """Both sides agree, and some k are met twice or never."""
    K = run.sizes[2]
    live = pairs.left.live[e] & pairs.right.live[e] & pairs.alive[e]
    counts = np.bincount(pairs.left.k[e][live & (pairs.left.k[e] < K) & (pairs.left.k[e] >= 0)], minlength=K)
    missing, twice = np.flatnonzero(need & (counts == 0)), np.flatnonzero(counts > 1)
    line, unit = pairs.flow.terms[-1].line, pairs.right.operand.unit
    left_out = sorted({int(k) for k in missing % unit})
    if unit > 1 and len(left_out) < unit and len(missing) * unit == len(left_out) * K and not len(twice):
        words = f"nibble{'s' if len(left_out) > 1 else ''} {', '.join(map(str, left_out))}"
        return Divergence("nibbles_left_out", LOOP, line, f"k = {span(missing)} is never multiplied", "all eight nibbles of a word",
                       f"{words} of each word {'are' if len(left_out) > 1 else 'is'} left out", pairs.program)  # fmt: skip
    by_turn = asked_by_turn(pairs, pairs.left, e)
    depth = max(len(np.unique(ks)) for ks in by_turn)
    if len(twice):
        return met_again(run, pairs, by_turn, depth, alone=bool((pairs.right.k[e][live] != pairs.left.k[e][live]).any()) and unit == 1)
    return never_met(run, pairs, e, need, missing, depth) if len(missing) else None


def never_met(run: Run, pairs: Pairs, e: int, need: Array, missing: Array, depth: int) -> Divergence:
    """Why these k are never multiplied. depth: of a tile along K."""
    K, unit = run.sizes[2], pairs.right.operand.unit
    turns, line = int(pairs.turn.max()) + 1, pairs.flow.terms[-1].line
    asked = [np.isin(missing, side.k[e][side.asked[e] & pairs.alive[e] & (side.row[e] == row)]).all()
             for side, row in ((pairs.left, pairs.m[e]), (pairs.right, pairs.n[e]))]  # fmt: skip
    if (unit == 1 and all(asked)) or (asked[0] and unit > 1):
        return Divergence("k_mask_too_short", LOAD, run.line_of_load(int(pairs.left.node[0]), pairs.left.operand.tensor),
                       f"the masks leave out k = {span(missing)}, which the addresses reach", f"a mask that ends at K = {K}",
                       "the masks of the loads end before K does", pairs.program)  # fmt: skip
    if left_out := block_left_out(run, pairs, int(pairs.n[e]), missing, line):
        return left_out
    if stays := _stays_behind(run, pairs, e):
        return stays
    inside = run.stages.needed is None and missing[-1] < np.flatnonzero(need)[-1] and missing[0] > 0
    if inside:
        return Divergence("k_left_out", LOOP, line, f"k = {span(missing)} is never multiplied, though k before and behind it is",
                          f"every k up to K = {K}", "parts of K are left out", pairs.program)  # fmt: skip
    return Divergence(
        _missing_name(run, missing, need, depth, turns), LOOP, line,
        f"the loop ends after {turns} turn{'s' if turns != 1 else ''} of {depth}; k = {span(missing)} is never multiplied",
        f"every k up to K = {K}" if run.stages.needed is None else "every block of the row",
        _missing_reason(run, missing, need, depth, turns), pairs.program,
    )  # fmt: skip


LEFT_OUT = "left out of the sum"
LAST_LEFT_OUT = f"{LEFT_OUT}: the loop ends a turn too early, or its last turn multiplies nothing"


def block_left_out(run: Run, pairs: Pairs, n: int, missing: Array, line: int | None) -> Divergence | None:
    """Blocks of a row that the program comes to and does not multiply: then neither end of its loop is wrong.

    missing: k of row n that are in no product.
    """
    right = run.stages.right
    if run.stages.needed is None:
        return None
    side = run.problem.tensors[right.tensor].shape[1]
    read = _blocks_read(run, pairs.program, n // side, side)
    columns = np.unique(missing // side)
    if not np.isin(columns, list(read)).all():
        return None
    if np.isin(columns, np.unique(pairs.right.k[pairs.right.live & (pairs.right.row // side == n // side)] // side)).any():
        return None  # they are multiplied, with what is not theirs
    loaded = all(read[int(column)] for column in columns)
    present = np.flatnonzero(run.stages.needed(run.problem)[n]) // side
    last = np.array_equal(columns, np.unique(present)[-len(columns) :])
    whole = len(columns) == len(np.unique(present))  # then it does not tell whether the last ones are missing
    noun = f"block column{'s' if len(columns) > 1 else ''} {span(columns)} of block row {n // side}"
    return Divergence(
        ("last_block_dropped or block_left_out" if whole else "last_block_dropped") if last else "block_left_out", LOOP, line,
        f"what is loaded for {noun} is not multiplied" if loaded else f"the column index of {noun} is loaded, and nothing is multiplied",
        "every block of the row",
        f"the last block of a row is looked up and {LAST_LEFT_OUT}" if last and not whole else (
            f"a block that the loop comes to is {LEFT_OUT}"), pairs.program,
    )  # fmt: skip


def _blocks_read(run: Run, program: int, row: int, side: int) -> dict[int, bool]:
    """The block columns of a block row of which the program loads the column index (False) or the values (True)."""
    right, index = run.stages.right, run.stages.left.index
    stride, read = run.problem.tensors[right.tensor].stride(0), dict[int, bool]()
    for node in run.tape.accesses[program]:
        if node.op != "load" or node.tensor not in (right.tensor, index) or node.offsets is None:
            continue
        offsets = node.offsets[node.active].reshape(-1) * (stride if node.tensor == index else 1)
        n, k = right.place(run.problem, offsets)
        for column in np.unique(k[n // side == row] // side).tolist():
            read[column] = read.get(column, False) or node.tensor == right.tensor
    return read


def _stays_behind(run: Run, pairs: Pairs, e: int) -> Divergence | None:
    """Turns that multiply nothing and all ask for the same elements of X: it is not that their loop begins too late."""
    left, turns = pairs.left, int(pairs.turn.max()) + 1
    asked = [left.offset[e][(pairs.turn == turn) & left.asked[e]] for turn in range(turns)]
    if turns < 2 or not len(asked[0]) or pairs.live[e].any() or not all(np.array_equal(one, asked[0]) for one in asked):
        return None
    return Divergence(
        "k_not_advanced", ADVANCE, run.line_of_load(int(left.node[0]), left.operand.tensor),
        f"all {turns} turns ask for the same elements of X, which the mask leaves out", "every k once, from 0 on",
        "neither operand moves on from turn to turn, nor begins with k = 0", pairs.program, 0,
    )  # fmt: skip


def met_again(run: Run, pairs: Pairs, by_turn: Sequence[Array], depth: int, *, alone: bool) -> Divergence | None:
    """The first turn that multiplies what an earlier one did. by_turn: the k of X in each turn; alone: W has others."""
    seen: set[int] = set()
    for turn, ks in enumerate(by_turn):
        again = seen & set(ks[ks < run.sizes[2]].tolist())
        if again:
            step = int(ks.min() - by_turn[turn - 1].min()) if turn else 0
            repeated = int(np.flatnonzero(pairs.turn == turn)[0])
            line = run.line_of_load(int(pairs.left.node[repeated]), pairs.left.operand.tensor)
            name = "k_not_advanced" if step == 0 else "advanced_by_one" if step == 1 else "k_met_twice"
            reason = "neither operand moves on from turn to turn" if step == 0 else (
                f"the tiles of neighbouring turns are {step} apart and {depth} deep, so k is met more than once")  # fmt: skip
            who = "the left operand holds" if alone else "both operands hold"
            if alone:
                reason = "X does not move on as W does" + (": it stays where it is" if step == 0 else f", by {step} of k a turn")
            elif step == 0 and len(by_turn) == 2:  # two turns do not tell whether a third would move on
                name = "k_not_advanced or k_one_turn_behind"
            elif step == 0 and turn == 1 and _a_turn_behind(by_turn):
                name, reason = "k_one_turn_behind", (
                    "turn 1 takes the tile of turn 0 again, and every later one is a turn behind: what is loaded for turn 1 has to be the "
                    "next tile")  # fmt: skip
            return Divergence(name, ADVANCE, line,
                           f"{who} k = {span(ks)}, of which {span(np.array(sorted(again)))} was multiplied before",
                           "every k once", reason, pairs.program, turn)  # fmt: skip
        seen |= set(ks.tolist())
    return None


def _a_turn_behind(by_turn: Sequence[Array]) -> bool:
    """Whether every turn but the second moves on, each as far as the others. by_turn: the k of X in each turn."""
    begins = np.array([ks.min() for ks in by_turn if len(ks)])
    steps = np.unique(np.diff(begins[1:]))
    return len(begins) == len(by_turn) > 2 and len(steps) == 1 and bool(steps[0] > 0)


def _missing_name(run: Run, missing: Array, need: Array, depth: int, turns: int) -> str:
    K, wanted = run.sizes[2], np.flatnonzero(need)
    if run.stages.needed is not None:
        if missing[0] == wanted[0] and missing[-1] < wanted[-1]:
            return "first_block_dropped"
        return "last_block_dropped or block_count_as_end or at_most_n_blocks or crow_without_leading_zero"
    if missing[0] == 0:
        return "first_k_block_dropped"
    M, N, _ = run.sizes
    if turns == -(-N // depth) and len(missing) > depth:
        return "loop_over_n"
    if turns == -(-M // depth) and len(missing) > depth:
        return "loop_over_m"
    if turns == 1 and 2 * depth < K:
        return "one_k_tile_only"
    return "last_k_block_dropped"


def _missing_reason(run: Run, missing: Array, need: Array, depth: int, turns: int) -> str:
    _M, _N, _K = run.sizes
    name = _missing_name(run, missing, need, depth, turns)
    if run.stages.needed is not None:
        return "the loop begins behind the first block of its row" if name == "first_block_dropped" else (
            "the loop ends before the last block of its row")  # fmt: skip
    if name == "first_k_block_dropped":
        return "the loop does not begin at k = 0"
    if name in ("loop_over_n", "loop_over_m"):
        size = name[-1].upper()
        return f"that is as many turns as {size} needs; the sum goes over K"
    if len(missing) < depth:
        return "the last, partial tile of K is left out: the number of turns is rounded down, or the loop ends a tile too early"
    return "the loop makes too few turns"
