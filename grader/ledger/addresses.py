"""Do the operands hold the right elements? Rows against those that are stored, and every k once, alike on both sides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grader.ledger.finding import ADVANCE, LOAD, LOOP, PAIR, STORE, Finding
from grader.ledger.pairs import Pairs, Run, Side, hull, span
from grader.ledger.provenance import Array
from grader.ledger.stages import Blocks, Rule


def look(run: Run, pairs: Pairs, rules: Mapping[str, int]) -> list[Finding]:
    """What is wrong with the places that the operands' elements come from, in the order of the flow.

    rules: for each of the lab's rules, how many programs follow it (see `followed`).
    """
    if not pairs.turn.size:
        return []
    stored = _stored(run, pairs)
    if stored:
        return [stored]
    strides = [finding for side in (pairs.left, pairs.right) if (finding := _strides(run, pairs, side))]
    if strides:
        return strides
    blocks = _blocks(run, pairs, rules)
    if blocks:
        return blocks
    rows = [finding for side in (pairs.left, pairs.right) if (finding := _rows(run, pairs, side))]
    if rows:
        return rows
    return _summed(run, pairs)


def _stored(run: Run, pairs: Pairs) -> Finding | None:
    """A tile of Y stored by other strides than Y's: the operands belong together, and to other places."""
    left, right = pairs.left, pairs.right
    both = left.live & right.live & pairs.alive
    if not both.any(axis=1).all():
        return None
    first = both.argmax(axis=1)
    each = np.arange(len(first))
    m, n = left.row[each, first], right.row[each, first]
    if not ((left.row == m[:, None]) | ~both).all() or not ((right.row == n[:, None]) | ~both).all():
        return None
    assert pairs.store.offsets is not None
    offsets = pairs.store.offsets.reshape(-1)[pairs.flow.lanes]
    y = run.problem.tensors[run.lab.output]
    own = tuple(int(stride) for stride in y.stride())
    if (offsets == m * own[0] + n * own[1]).all():
        return None
    matrix = np.stack([m, n, np.ones(len(m))], axis=1).astype(np.float64)
    if np.linalg.matrix_rank(matrix) < 3:
        return None
    found, *_ = np.linalg.lstsq(matrix, offsets.astype(np.float64), rcond=None)
    used = tuple(round(float(value)) for value in found[:2])
    if np.abs(matrix @ np.round(found) - offsets).max() > 1e-6 or round(float(found[2])) or used == own:
        return None
    M, N, _ = run.sizes
    axis = 0 if used[0] != own[0] else 1
    if used[0] != own[0] and used[1] != own[1]:
        name = "y_column_major"
        reason = "Y is stored by columns, where its strides say by rows"
    else:
        name = f"ignores_stride_y{'mn'[axis]}"
        reason = f"stride_y{'mn'[axis]} is not used"
    return Finding(
        name, STORE, pairs.store.line,
        f"neighbouring {('rows', 'columns')[axis]} of Y are stored {used[axis]}{_size_called(run, used[axis])} elements apart",
        f"stride_y{'mn'[axis]} = {own[axis]}", reason, pairs.program,
    )  # fmt: skip


def expected_rows(pairs: Pairs, side: Side) -> Array:
    """[E, 1]: the row of an operand that belongs to each element of Y."""
    return (pairs.m if side is pairs.left else pairs.n)[:, None]


def _words(side: Side, pairs: Pairs) -> str:
    return "left" if side is pairs.left else "right"


def _limit(run: Run, side: Side, pairs: Pairs) -> int:
    return run.sizes[0] if side is pairs.left else run.sizes[1]


def _other(side: Side, pairs: Pairs) -> Side:
    return pairs.right if side is pairs.left else pairs.left


def _strides(run: Run, pairs: Pairs, side: Side) -> Finding | None:
    """A tensor walked by other strides than its own: its offsets are linear in what they should be, with other factors."""
    if not side.operand.strides:
        return None
    other = _other(side, pairs)
    unit = side.operand.unit
    use = side.asked & side.live & other.live & pairs.alive
    k = other.k if other.operand.unit == 1 else side.k
    row = np.broadcast_to(expected_rows(pairs, side), side.k.shape)
    right = (side.row == row) & (side.k // unit == k // unit)
    if not use.any() or right[use].mean() > 0.5:
        return None
    matrix = np.stack([row[use], k[use] // unit, np.ones(int(use.sum()))], axis=1).astype(np.float64)
    if np.linalg.matrix_rank(matrix) < 3:
        return None
    found, *_ = np.linalg.lstsq(matrix, side.offset[use].astype(np.float64), rcond=None)
    along_row, along_k, start = (round(float(value)) for value in found)
    if np.abs(matrix @ np.round(found) - side.offset[use]).max() > 1e-6 or start:
        return None
    for name, used, axis in zip(side.operand.strides, (along_row, along_k), ("row", "column"), strict=True):
        own = run.problem.scalars[name]
        if used != own:
            letter = "rows of X" if axis == "row" and side is pairs.left else "columns of X" if side is pairs.left else (
                "channels of W" if axis == "row" else "k of W")  # fmt: skip
            named = _size_called(run, used)
            swapped = {along_row, along_k} == {run.problem.scalars[n] for n in side.operand.strides}
            reason = f"the two strides of {side.operand.letter} are exchanged" if swapped else f"{name} is not used"
            return Finding(_stride_name(run, name, used, swapped), LOAD, run.line_of_load(int(side.node[0]), side.operand.tensor),
                           f"neighbouring {letter} are taken to be {used}{named} elements apart", f"{name} = {own}",
                           reason, pairs.program)  # fmt: skip
    return None


def _size_called(run: Run, value: int) -> str:
    names = [name for name in ("M", "N", "K") if run.problem.scalars[name] == value]
    names += [name for name, own in run.problem.scalars.items() if own == value and name not in names and value > 1]
    return f" (= {names[0]})" if names and value > 1 else ""


def _stride_name(run: Run, name: str, used: int, swapped: bool) -> str:
    if swapped and name.startswith("stride_w"):
        return "weight_strides_swapped or weight_row_major"
    if name.startswith("stride_x"):
        N, K = run.problem.scalars["N"], run.problem.scalars["K"]
        return f"ignores_{name}" if used in (1, K) else "row_length_n" if used == N else f"ignores_{name}"
    return "weight_row_major" if name.startswith("stride_w") else f"ignores_{name}"


def followed(run: Run, pairs: Pairs) -> list[str]:
    """Names of the lab's rules that the program's pairs follow where they should meet others."""
    found = _bad_blocks(run, pairs)
    return [rule.name for rule in found[1]] if found else []


def _bad_blocks(run: Run, pairs: Pairs) -> tuple[Array, list[Rule]] | None:
    left, right = pairs.left, pairs.right
    if run.stages.explain_block is None:
        return None
    live = left.live & right.live & pairs.alive
    bad = live & ((right.row != pairs.n[:, None]) | (right.k != left.k))
    if not bad.any():
        return None
    m, n = (np.broadcast_to(places[:, None], bad.shape) for places in (pairs.m, pairs.n))
    # A pair whose k happens to agree follows the mistaken rule too, so all pairs are asked, not the bad ones only.
    blocks = Blocks(m[live], n[live], left.k[live], right.offset[live], right.row[live], right.k[live])
    return bad, run.stages.explain_block(run.problem, blocks)


def _blocks(run: Run, pairs: Pairs, rules: Mapping[str, int]) -> list[Finding]:
    """The lab's own rules for pairs that should not meet; of several that fit, the one that most programs follow."""
    left, right = pairs.left, pairs.right
    found = _bad_blocks(run, pairs)
    if found is None:
        return []
    bad, named = found
    e, p = (int(i) for i in np.argwhere(bad)[0])
    findings = []
    for aspect in dict.fromkeys(rule.aspect for rule in named):
        rule = max((rule for rule in named if rule.aspect == aspect), key=lambda rule: rules.get(rule.name, 0))
        side = left if rule.name.startswith(("x_", "col_")) else right
        findings.append(Finding(
            rule.name, LOAD if aspect == "row" or side is left else PAIR,
            pairs.flow.terms[int(pairs.term[p])].line if aspect == "inside" else
            run.line_of_load(int(side.node[p]), side.operand.tensor),
            f"for Y[{pairs.m[e]}, {pairs.n[e]}], X[{left.row[e, p]}, {left.k[e, p]}] meets {_element(run, right, e, p)}",
            f"W[{pairs.n[e]}, {left.k[e, p]}]", rule.reason, pairs.program, int(pairs.turn[p]),
        ))  # fmt: skip
    return findings


def _element(run: Run, side: Side, e: int, p: int) -> str:
    if side.row[e, p] >= 1 << 29:
        return f"what lies {side.offset[e, p]} elements behind the first of {side.operand.tensor.removesuffix('_ptr')}"
    return f"{side.operand.letter}[{side.row[e, p]}, {side.k[e, p]}]"


def _rows(run: Run, pairs: Pairs, side: Side) -> Finding | None:
    """Rows of X, or channels of W, that are not those of the elements of Y that get the result."""
    expected = np.broadcast_to(expected_rows(pairs, side), side.row.shape)
    use = side.live & pairs.alive
    bad = use & (side.row != expected)
    if not use.any() or bad[use].mean() < 0.25:
        return None
    p = int(np.argwhere(bad)[0][1])
    turn = int(pairs.turn[p])
    here = use & (pairs.turn == turn)[None, :]
    letter, axis = side.operand.letter, "rows" if side is pairs.left else "channels"
    held, stored = hull(side.row[here]), hull(expected[here])
    line = run.line_of_load(int(side.node[p]), side.operand.tensor)
    target = f"Y[{stored}, ...]" if side is pairs.left else f"Y[..., {stored}]"
    name = "row" if side is pairs.left else "column"
    return Finding(
        f"{name}_tile_offset_forgotten", LOAD, line,
        f"the {_words(side, pairs)} operand holds {axis} {held} of {letter}, and the result goes to {target}",
        f"{axis} {stored}", f"{axis} of {letter} and of Y are not those of the same tile", pairs.program, turn,
    )  # fmt: skip


# ---- the summed index


def _summed(run: Run, pairs: Pairs) -> list[Finding]:
    left, right = pairs.left, pairs.right
    e = int(np.argmax((left.live & right.live & pairs.alive).sum(axis=1)))
    K = run.sizes[2]
    need = np.ones(K, dtype=bool)
    if run.stages.needed is not None:
        need = run.stages.needed(run.problem)[pairs.n[e]]
    if run.config.split_k > 1:
        return _only_pairs(run, pairs, e)
    unit = right.operand.unit
    lefts, rights = _counts(left, pairs, e, K), _counts(right, pairs, e, K)
    wanted = need.astype(int)
    left_good = bool((lefts == wanted).all())
    right_good = bool((rights == wanted).all()) if unit == 1 else bool((rights == wanted.reshape(-1, unit)[:, 0] * unit).all())
    live = left.live[e] & right.live[e] & pairs.alive[e]
    bad = live & (left.k[e] // unit != right.k[e] // unit)
    behind = live & ((left.k[e] >= K) | (right.k[e] >= K)) & ((left.value[e] != 0) & (right.value[e] != 0))
    if behind.any():
        return [_behind(run, pairs, e, behind)]
    if left_good and right_good:
        return _only_pairs(run, pairs, e) if bad.any() else []
    if not bad.any() and not _one_sided(pairs, e):
        return [finding] if (finding := _loop(run, pairs, e, need)) else []
    findings = []
    if not left_good:
        findings.append(_advance(run, pairs, left, e, need))
    if not right_good:
        findings.append(_advance(run, pairs, right, e, need))
    return [finding for finding in findings if finding]


def _behind(run: Run, pairs: Pairs, e: int, behind: Array) -> Finding:
    side = pairs.left if (pairs.left.k[e][behind] >= run.sizes[2]).any() else pairs.right
    p = int(np.flatnonzero(behind)[0])
    return Finding(
        "k_tail_unmasked", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
        f"the {_words(side, pairs)} operand holds k = {span(side.k[e][behind])}, which lies behind the row in memory",
        f"zeros from K = {run.sizes[2]} on", "a partial last tile of K is not masked", pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _one_sided(pairs: Pairs, e: int) -> bool:
    """Whether a side is masked where the other is not, in a way that loses products."""
    only_left = pairs.left.live[e] & ~pairs.right.live[e] & pairs.alive[e] & (pairs.left.value[e] != 0)
    only_right = pairs.right.live[e] & ~pairs.left.live[e] & pairs.alive[e] & (pairs.right.value[e] != 0)
    return bool((only_left | only_right).any())


def _counts(side: Side, pairs: Pairs, e: int, K: int) -> Array:
    unit = side.operand.unit
    use = side.live[e] & pairs.alive[e] & (side.k[e] >= 0) & (side.k[e] < K)
    return np.bincount(side.k[e][use] // unit, minlength=-(-K // unit))


def _only_pairs(run: Run, pairs: Pairs, e: int) -> list[Finding]:
    """Both sides are complete, but their orders differ."""
    left, right = pairs.left, pairs.right
    unit = right.operand.unit
    live = left.live[e] & right.live[e] & pairs.alive[e]
    bad = live & (left.k[e] // unit != right.k[e] // unit)
    if not bad.any():
        return []
    p = int(np.flatnonzero(bad)[0])
    place = int(p - np.flatnonzero(pairs.term == pairs.term[p])[0])
    words = f" (word {right.k[e, p] // unit})" if unit > 1 else ""
    return [Finding(
        "k_orders_differ", PAIR, pairs.flow.terms[int(pairs.term[p])].line,
        f"place {place} of the summed axis holds k = {left.k[e, p]} of X and k = {right.k[e, p]}{':' + str(right.k[e, p] + unit) if unit > 1 else ''} of W{words}",
        "the same k on both sides", "X and W are multiplied in different orders of k", pairs.program, int(pairs.turn[p]),
    )]  # fmt: skip


def _by_turn(pairs: Pairs, side: Side, e: int) -> list[Array]:
    """For each turn the k that the side asked for, in order, masked or not."""
    turns = range(int(pairs.turn.max()) + 1)
    use = side.asked[e] & pairs.alive[e]
    return [side.k[e][use & (pairs.turn == turn)] for turn in turns]


def _advance(run: Run, pairs: Pairs, side: Side, e: int, need: Array) -> Finding | None:
    """How a side's k moves from turn to turn, against how it should."""
    if run.stages.needed is not None:
        return _loop(run, pairs, e, need)
    asked = _by_turn(pairs, side, e)
    unit = side.operand.unit
    first = np.unique(asked[0])
    if not len(first):
        return None
    step = len(first) * unit
    letter, word = side.operand.letter, _words(side, pairs)
    line = run.line_of_load(int(side.node[0]), side.operand.tensor)
    live = side.live[e] & pairs.alive[e]
    for turn, ks in enumerate(asked):
        wanted = first + turn * step
        here = np.unique(ks)
        if np.array_equal(here, wanted):
            masked = ~live & (pairs.turn == turn) & (side.k[e] < run.sizes[2]) & side.asked[e]
            if masked.any():
                return Finding(
                    "k_mask_too_short", ADVANCE, line,
                    f"the mask leaves out k = {span(side.k[e][masked])} of {letter}", f"all k below K = {run.sizes[2]}",
                    "the mask of the loads ends before K does", pairs.program, turn,
                )  # fmt: skip
            continue
        held = f"k = {_k_span(here, unit)} of {letter}"
        wanted_words = f"k = {_k_span(wanted[wanted < run.sizes[2]], unit)}"
        if turn == 0:
            return Finding("k_starts_elsewhere", ADVANCE, line, f"the {word} operand holds {held}",
                           f"k = 0:{step}", "the first turn does not begin at k = 0", pairs.program, turn)  # fmt: skip
        if np.array_equal(here, first):
            return Finding("k_not_advanced", ADVANCE, line, f"the {word} operand holds {held} again", wanted_words,
                           f"the pointers of {letter} do not advance", pairs.program, turn)  # fmt: skip
        if len(here) == len(first) and len(set((here - first).tolist())) == 1:
            moved = int(here[0] - first[0]) // turn
            if moved * turn == int(here[0] - first[0]):
                name = "advanced_by_one" if moved == 1 else "words_advanced_too_far" if unit > 1 and moved > step else "advanced_wrongly"
                reason = f"the pointers of {letter} move on by {moved} of k a turn, a tile is {step} deep"
                if unit > 1:
                    reason = f"the pointers of {letter} move on by {moved // unit} words a turn, a tile is {step // unit} words deep"
                return Finding(name, ADVANCE, line, f"the {word} operand asks for {held}", wanted_words, reason,
                               pairs.program, turn)  # fmt: skip
        return Finding("advanced_wrongly", ADVANCE, line, f"the {word} operand asks for {held}", wanted_words,
                       f"{letter} does not move on by one tile a turn", pairs.program, turn)  # fmt: skip
    return None


def _k_span(ks: Array, unit: int) -> str:
    if unit == 1 or not len(ks):
        return span(ks)
    return span((ks[:, None] + np.arange(unit)).reshape(-1))


def _loop(run: Run, pairs: Pairs, e: int, need: Array) -> Finding | None:
    """Both sides agree, and some k are met twice or never."""
    K = run.sizes[2]
    live = pairs.left.live[e] & pairs.right.live[e] & pairs.alive[e]
    counts = np.bincount(pairs.left.k[e][live & (pairs.left.k[e] < K) & (pairs.left.k[e] >= 0)], minlength=K)
    missing, twice = np.flatnonzero(need & (counts == 0)), np.flatnonzero(counts > 1)
    turns = int(pairs.turn.max()) + 1
    line = pairs.flow.terms[-1].line
    by_turn = _by_turn(pairs, pairs.left, e)
    depth = max(len(np.unique(ks)) for ks in by_turn)
    if len(twice):
        seen: set[int] = set()
        for turn, ks in enumerate(by_turn):
            again = seen & set(ks[ks < K].tolist())
            if again:
                step = int(ks.min() - by_turn[turn - 1].min()) if turn else 0
                name = "k_not_advanced" if step == 0 else "advanced_by_one" if step == 1 else "k_met_twice"
                reason = "neither operand moves on from turn to turn" if step == 0 else f"the tiles of neighbouring turns are {step} apart and {depth} deep, so k is met more than once"
                return Finding(name, ADVANCE, run.line_of_load(int(pairs.left.node[0]), pairs.left.operand.tensor),
                               f"both operands hold k = {span(ks)}, of which {span(np.array(sorted(again)))} was multiplied before",
                               "every k once", reason, pairs.program, turn)  # fmt: skip
            seen |= set(ks.tolist())
        return None
    if not len(missing):
        return None
    return Finding(
        _missing_name(run, missing, need, depth, turns), LOOP, line,
        f"the loop ends after {turns} turn{'s' if turns != 1 else ''} of {depth}; k = {span(missing)} is never multiplied",
        f"every k up to K = {K}" if run.stages.needed is None else "every block of the row",
        _missing_reason(run, missing, need, depth, turns), pairs.program,
    )  # fmt: skip


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
    if turns == 1 and K > 2 * depth:
        return "one_k_tile_only"
    return "last_k_block_dropped"


def _missing_reason(run: Run, missing: Array, need: Array, depth: int, turns: int) -> str:
    M, N, K = run.sizes
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
        return "the last, partial tile of K is left out: the number of turns is rounded down"
    return "the loop makes too few turns"
