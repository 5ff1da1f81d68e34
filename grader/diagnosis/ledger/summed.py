"""Is every k met exactly once, with the same k on both sides?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Run, Side, side_words, span
from grader.diagnosis.ledger.provenance import Array
from grader.labs.divergence import ADVANCE, LOAD, LOOP, PAIR, Divergence


def look(run: Run, pairs: Pairs, *, whole: bool) -> list[Divergence]:
    """What is wrong with the summed index. whole: all of K belongs into this store."""
    e = int(np.argmax((pairs.left.live & pairs.right.live & pairs.alive).sum(axis=1)))
    need = np.ones(run.sizes[2], dtype=bool)
    if run.stages.needed is not None:
        need = run.stages.needed(run.problem)[pairs.n[e]]
    if not whole:
        return _only_pairs(run, pairs, e)
    masked = _masked_rows(run, pairs, e)
    return [masked] if masked else _both_sides(run, pairs, e, need)


def _both_sides(run: Run, pairs: Pairs, e: int, need: Array) -> list[Divergence]:
    """Of a store into which all of K belongs: each side against what is needed, and against the other. need: bool [K]."""
    left, right, K = pairs.left, pairs.right, len(need)
    unit = right.operand.unit
    left_good, right_good = _complete(run, pairs, e, need)
    live = left.live[e] & right.live[e] & pairs.alive[e]
    bad = live & (left.k[e] // unit != right.k[e] // unit)
    if (behind := _beyond_the_end(pairs, e, K)).any():
        return [_behind(run, pairs, e, behind)]
    if right_good and not left_good and (astray := _beside_nibbles(run, pairs, e)):
        return [astray]
    if run.stages.needed is not None and right_good and bad.any():
        return _only_pairs(run, pairs, e)
    if left_good and right_good:
        return _only_pairs(run, pairs, e) if bad.any() else []
    if bad.any() and not left_good and _several_times(pairs, e):  # no tile of X, whose depth would say how far it should move on
        return _only_pairs(run, pairs, e)
    if not bad.any() and not _one_sided(pairs, e):
        return [finding] if (finding := _loop(run, pairs, e, need)) else []
    wrong = [side for side, good in ((left, left_good), (right, right_good)) if not good]
    advances = {side.operand.tensor: _advance(run, pairs, side, e, need) for side in wrong}
    findings = [finding for finding in advances.values() if finding]
    if findings and run.stages.needed is None and (short := next((side for side in wrong if not advances[side.operand.tensor]), None)):
        findings += _too_short(run, pairs, short, e)
    return findings or _only_pairs(run, pairs, e)


def _too_short(run: Run, pairs: Pairs, side: Side, e: int) -> list[Divergence]:
    """Of a side that moves on as it should, while the other does not: whether it ends before K does."""
    unit, need = side.operand.unit, np.ones(run.sizes[2], dtype=bool)
    missing = np.flatnonzero(np.repeat(_counts(side, pairs, e, run.sizes[2]) == 0, unit)[: run.sizes[2]])
    depth = len(np.unique(_by_turn(pairs, side, e)[0])) * unit
    ends = len(missing) and missing[-1] == run.sizes[2] - 1 and len(missing) == run.sizes[2] - missing[0] and missing[0]
    return [_never_met(run, pairs, e, need, missing, depth)] if ends else []


def _several_times(pairs: Pairs, e: int) -> bool:
    """Whether the first turn asks for an element of X in several of its places."""
    first = _by_turn(pairs, pairs.left, e)[0]
    return len(np.unique(first)) < len(first)


def _complete(run: Run, pairs: Pairs, e: int, need: Array) -> tuple[bool, bool]:
    """Whether X, and whether W, has every k that is needed once. need: bool [K]."""
    left, right, K = pairs.left, pairs.right, len(need)
    unit, wanted = right.operand.unit, need.astype(int)
    left_good = bool((_counts(left, pairs, e, K) == wanted).all())
    if run.stages.subtracted:  # a tile may go on behind the end of its group, where the other side is masked
        left_good |= bool((_counts(replace(left, live=left.live & right.live), pairs, e, K) == wanted).all())
    each = wanted if unit == 1 else wanted.reshape(-1, unit)[:, 0] * unit
    return left_good, bool((_counts(right, pairs, e, K) == each).all())


def _beyond_the_end(pairs: Pairs, e: int, K: int) -> Array:
    """bool [P]: the pairs beyond the last k that add something."""
    left, right, unit = pairs.left, pairs.right, pairs.right.operand.unit
    with np.errstate(all="ignore"):
        counts = ~(left.value[e] * right.value[e] == 0)  # NaN times zero counts too
    together = left.asked[e] & right.asked[e] & pairs.alive[e] & (left.k[e] // unit == right.k[e] // unit)
    beyond: Array = together & counts & ((left.live[e] & (left.k[e] >= K)) | (right.live[e] & (right.k[e] >= K)))
    return beyond


def _beside_nibbles(run: Run, pairs: Pairs, e: int) -> Divergence | None:
    """The wrong elements of X where a product takes one nibble of each of its words, and the next product the next nibble."""
    left, right, unit = pairs.left, pairs.right, pairs.right.operand.unit
    live = left.live[e] & right.live[e] & pairs.alive[e]
    words = right.k[e][live & (pairs.turn == 0)]
    each = len(words) // max(1, len(np.unique(words)))
    if unit == 1 or len(words) < 2 or each >= unit:
        return None
    bad = live & (left.k[e] // unit != right.k[e] // unit)
    if not bad.any() and np.bincount(left.k[e][live]).max() < 2:
        return None
    p = int(np.flatnonzero(bad if bad.any() else live)[0])
    line, turn = run.line_of_load(int(left.node[p]), left.operand.tensor), int(pairs.turn[p])
    if bad.any():
        held = _k_span(right.k[e, p : p + 1], unit)
        return Divergence(
            "k_orders_differ", PAIR, line, f"k = {left.k[e, p]} of X meets word {right.k[e, p] // unit}, which holds k = {held}",
            f"an element of k = {held}", f"a product takes {each} of the {unit} nibbles of each word, and its elements of X are not those "
            "of the word", pairs.program, turn,
        )  # fmt: skip
    return Divergence(
        "nibble_not_in_x", PAIR, line, f"all {unit} nibbles of a word are multiplied, with k = {span(left.k[e][live])} of X alone",
        "each nibble with the k that is its own", "different nibbles of a word meet the same element of X", pairs.program, turn,
    )  # fmt: skip


def _masked_rows(run: Run, pairs: Pairs, e: int) -> Divergence | None:
    """Elements of Y that get fewer products than others, because a load's mask leaves out a row that the tensor has."""
    met = (pairs.left.live & pairs.right.live & pairs.alive).sum(axis=1)
    few = int(met.argmin())
    if met[few] == met[e] > 0:
        return None
    for side, other, row in ((pairs.left, pairs.right, pairs.m[few]), (pairs.right, pairs.left, pairs.n[few])):
        masked = ~side.live[few] & side.asked[few] & pairs.alive[few] & other.live[few]
        masked &= (side.row[few] == row) & (side.k[few] >= 0) & (side.k[few] < run.sizes[2])
        if masked.any():
            p = int(np.flatnonzero(masked)[0])
            return Divergence("load_mask_too_short", LOAD, run.line_of_load(int(side.node[p]), side.operand.tensor),
                           f"the mask leaves out {side.operand.letter}[{row}, {span(side.k[few][masked])}], which "
                           f"Y[{pairs.m[few]}, {pairs.n[few]}] needs",
                           "a mask that ends with the tensor", f"the mask of the load of {side.operand.letter} ends too early",
                           pairs.program, int(pairs.turn[p]))  # fmt: skip
    return None


def slices(run: Run, followed: Sequence[Pairs]) -> list[Divergence]:
    """SPLIT_K: do the slices of a tile, all of which were recorded, meet every k once together?"""
    tiles: dict[tuple[int, int], list[Pairs]] = {}
    for pairs in followed:
        tiles.setdefault((int(pairs.m[0]), int(pairs.n[0])), []).append(pairs)
    whole = next((parts for parts in tiles.values() if _all_recorded(run, parts)), None)
    if whole is None or run.config.split_k == 1:
        return []
    by_side = [[_each_k(side, pairs, run.sizes[2]) for side, pairs in zip(sides, whole, strict=True)]
               for sides in ([pairs.left for pairs in whole], [pairs.right for pairs in whole])]  # fmt: skip
    if any((np.sum(counts, axis=0) == 1).all() for counts in by_side):
        return []  # the other side is wrong in ways of its own
    return [_wrong_slices(run, whole, max(by_side, key=lambda counts: np.count_nonzero(np.sum(counts, axis=0))))]


def _each_k(side: Side, pairs: Pairs, K: int) -> Array:
    """int [K]: how often a side meets each k, for the first element of Y; of words that hold several k, how often whole."""
    unit = side.operand.unit
    return np.repeat(_counts(side, pairs, 0, K) // unit, unit)[:K]


def _all_recorded(run: Run, parts: Sequence[Pairs]) -> bool:
    """Whether all programs that store to a tile are among these."""
    programs = {pairs.program for pairs in parts}
    shared = [one for one in run.tape.stores if one.program in programs and one.tensor == run.lab.output]
    places = {(one.lowest, one.highest) for one in shared}
    return programs == {one.program for one in run.tape.stores if (one.lowest, one.highest) in places}


def _wrong_slices(run: Run, parts: Sequence[Pairs], counts: Sequence[Array]) -> Divergence:
    """What is wrong with slices that do not meet every k once. counts: of each, how often it meets each k."""
    split, K = run.config.split_k, run.sizes[2]
    line = parts[-1].flow.terms[-1].line if parts[-1].flow.terms else parts[-1].store.line
    total = np.sum(counts, axis=0)
    if not total.any():
        return Divergence("slices_leave_out", LOOP, line, f"none of the {split} slices multiplies anything", "every k in one slice",
                        "the number of turns of a slice is rounded down, here to 0")  # fmt: skip
    first = f"program {parts[0].program} multiplies k = {span(np.flatnonzero(counts[0]))}"
    if len(parts) > 1:
        first += f", program {parts[1].program} k = {span(np.flatnonzero(counts[1]))}"
        if all((count == 1).all() for count in counts):
            return Divergence("slice_walks_all_of_k", LOOP, line, first, f"each slice a {split}-th of K, 0:{K} together",
                            f"each of the {split} slices walks all of K, so that Y is {split} times what it should be")  # fmt: skip
        if all((count == counts[0]).all() for count in counts):
            return Divergence("slices_overlap", LOOP, line, first, "every k in one slice",
                            "every slice multiplies the same k: the number of the slice is not in the addresses")  # fmt: skip
    missing, twice = np.flatnonzero(total == 0), np.flatnonzero(total > 1)
    if len(twice):
        return Divergence("slices_overlap", LOOP, line, f"{first}; k = {span(twice)} is in more than one slice",
                        "every k in one slice", _overlap(parts, counts))  # fmt: skip
    return Divergence("slices_leave_out", LOOP, line, f"{first}; k = {span(missing)} is in no slice",
                    "every k in one slice", "the slices of K do not reach its end" if missing[-1] == K - 1 else
                    "the slices of K leave a part of it out")  # fmt: skip


def _overlap(parts: Sequence[Pairs], counts: Sequence[Array]) -> str:
    """How slices come to meet the same k."""
    begins, ends = ([int(np.flatnonzero(count)[end]) for count in counts if count.any()] for end in (0, -1))
    depth = len(np.unique(parts[0].left.k[0][parts[0].turn == 0]))
    if set(ends) == {len(counts[0]) - 1} and set(np.diff(np.sort(begins)).tolist()) == {depth}:
        return "slices begin one tile apart, and each moves on by one tile a turn, not by one for each slice"
    if set(ends) == {len(counts[0]) - 1}:
        return "every slice goes on to the end of K, not to where the next one begins"
    return "neighbouring slices of K overlap"


def _behind(run: Run, pairs: Pairs, e: int, behind: Array) -> Divergence:
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
        f"the {side_words(side, pairs)} operand holds k = {span(side.k[e][behind])}, which lies behind the row in memory",
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


def _only_pairs(run: Run, pairs: Pairs, e: int) -> list[Divergence]:
    """Both sides are complete, but their orders differ."""
    left, right = pairs.left, pairs.right
    unit = right.operand.unit
    live = left.live[e] & right.live[e] & pairs.alive[e]
    bad = live & (left.k[e] // unit != right.k[e] // unit)
    if not bad.any():
        return []
    if found := _slice_of_one_side(run, pairs, e, live) or _beside_nibbles(run, pairs, e):
        return [found]
    later = pairs.turn[bad & (pairs.turn > 0)]
    if len(later) and (found := _drifting(run, pairs, e, int(later.min()), started=len(later) == bad.sum())):
        return [found]
    p = int(np.flatnonzero(bad)[0])
    place = int(p - np.flatnonzero(pairs.term == pairs.term[p])[0])
    words = f" (word {right.k[e, p] // unit})" if unit > 1 else ""
    reason = "the columns of X are not those of the block that they meet"
    if run.stages.needed is None:
        again = _several_times(pairs, e)
        reason = "a tile takes the same elements of X several times" if again else "X and W are multiplied in different orders of k"
    return [Divergence(
        "k_orders_differ", PAIR, pairs.flow.terms[int(pairs.term[p])].line,
        f"place {place} of the summed axis holds k = {left.k[e, p]} of X and k = {_k_span(right.k[e, p : p + 1], unit)} of W{words}",
        "the same k on both sides", reason, pairs.program, int(pairs.turn[p]),
    )]  # fmt: skip


def _slice_of_one_side(run: Run, pairs: Pairs, e: int, live: Array) -> Divergence | None:
    """A slice of K of which one side knows, while the other begins at k = 0 and stays as far behind. live: bool [P]."""
    left, right = pairs.left, pairs.right
    if run.config.split_k == 1 or run.stages.needed is not None:
        return None
    unit = right.operand.unit
    ahead = np.unique(left.k[e][live] // unit - right.k[e][live] // unit)
    begin = [int(side.k[e][live].min()) for side in (left, right)]
    if len(ahead) != 1 or not ahead[0] or min(begin) // unit:
        return None
    behind = right if ahead[0] > 0 else left
    p = int(np.flatnonzero(live)[0])
    return Divergence(
        "slice_of_one_side", ADVANCE, run.line_of_load(int(behind.node[p]), behind.operand.tensor),
        f"the slice begins with k = {begin[0]} of X and k = {begin[1]} of W", f"both at k = {max(begin)}",
        f"the number of the slice is not in the addresses of {behind.operand.letter}", pairs.program, int(pairs.turn[p]),
    )  # fmt: skip


def _drifting(run: Run, pairs: Pairs, e: int, turn: int, *, started: bool) -> Divergence | None:
    """The steps of both sides from turn to turn differ. started: they begin alike; if not, only that one of them stays is told."""
    unit = pairs.right.operand.unit
    moved = []
    for side in (pairs.left, pairs.right):
        asked = _by_turn(pairs, side, e)
        if not len(asked[0]) or len(asked[turn]) != len(asked[0]):
            return None
        steps = np.unique(asked[turn] - asked[0])
        if len(steps) != 1:
            return None
        moved.append(int(steps[0]) // turn)
    if 0 not in moved and (not started or run.stages.needed is not None):  # blocks are as far apart as they please
        return None
    if not started and run.stages.needed is not None:  # of blocks that begin wrongly their rules tell
        return None
    side = pairs.left if moved[0] == 0 else pairs.right
    name = "k_not_advanced" if 0 in moved else "words_advanced_too_far" if unit > 1 and moved[1] == unit * moved[0] else "advanced_wrongly"
    return Divergence(
        name, ADVANCE, run.line_of_load(int(side.node[0]), side.operand.tensor),
        f"from turn {turn - 1} to turn {turn} X moves on by {moved[0]} of k, and W by {moved[1]}", "the same step on both sides",
        f"the pointers of {side.operand.letter} do not advance" if 0 in moved else
        "the pointers of X and of W move on by different steps along K", pairs.program, turn,
    )  # fmt: skip


def _by_turn(pairs: Pairs, side: Side, e: int) -> list[Array]:
    """For each turn the k that the side asked for, in order, masked or not."""
    turns = range(int(pairs.turn.max()) + 1)
    use = side.asked[e] & pairs.alive[e]
    return [side.k[e][use & (pairs.turn == turn)] for turn in turns]


def _advance(run: Run, pairs: Pairs, side: Side, e: int, need: Array) -> Divergence | None:
    """How a side's k moves from turn to turn, against how it should."""
    if run.stages.needed is not None:
        return _loop(run, pairs, e, need)
    asked = _by_turn(pairs, side, e)
    unit = side.operand.unit
    first = np.unique(asked[0])
    if not len(first):
        return None
    step = len(first) * unit
    letter, word = side.operand.letter, side_words(side, pairs)
    line = run.line_of_load(int(side.node[0]), side.operand.tensor)
    live = side.live[e] & pairs.alive[e]
    for turn, ks in enumerate(asked):
        wanted = first + turn * step
        here = np.unique(ks)
        if np.array_equal(here, wanted):
            masked = ~live & (pairs.turn == turn) & (side.k[e] < run.sizes[2]) & side.asked[e]
            masked &= ~np.isin(side.k[e], side.k[e][live & (pairs.turn == turn)])
            if masked.any():
                return Divergence(
                    "k_mask_too_short", ADVANCE, line,
                    f"the mask leaves out k = {span(side.k[e][masked])} of {letter}", f"all k below K = {run.sizes[2]}",
                    "the mask of the loads ends before K does", pairs.program, turn,
                )  # fmt: skip
            continue
        held = f"k = {_k_span(here, unit)} of {letter}"
        wanted_words = f"k = {_k_span(wanted[wanted < run.sizes[2]], unit)}"
        if turn == 0:
            return Divergence("k_starts_elsewhere", ADVANCE, line, f"the {word} operand holds {held}",
                           f"k = 0:{step}", "the first turn does not begin at k = 0", pairs.program, turn)  # fmt: skip
        if np.array_equal(here, first):
            return Divergence("k_not_advanced", ADVANCE, line, f"the {word} operand holds {held} again", wanted_words,
                           f"the pointers of {letter} do not advance", pairs.program, turn)  # fmt: skip
        if len(here) == len(first) and len(set((here - first).tolist())) == 1:
            moved = int(here[0] - first[0]) // turn
            if moved * turn == int(here[0] - first[0]):
                name = "advanced_by_one" if moved == 1 else "words_advanced_too_far" if unit > 1 and moved > step else "advanced_wrongly"
                reason = f"the pointers of {letter} move on by {moved} of k a turn, a tile is {step} deep"
                if unit > 1:
                    reason = f"the pointers of {letter} move on by {moved // unit} words a turn, a tile is {step // unit} words deep"
                reason = _across(run, side, moved) or reason
                return Divergence(name, ADVANCE, line, f"the {word} operand asks for {held}", wanted_words, reason,
                               pairs.program, turn)  # fmt: skip
        return Divergence("advanced_wrongly", ADVANCE, line, f"the {word} operand asks for {held}", wanted_words,
                       f"{letter} does not move on by one tile a turn", pairs.program, turn)  # fmt: skip
    return None


def _across(run: Run, side: Side, moved: int) -> str:
    """That pointers which move by this much of k really move along the rows of X, or the channels of W; else ""."""
    if len(side.operand.strides) != 2:
        return ""
    along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
    elements = moved // side.operand.unit * along_k
    if along_row <= along_k or elements % along_row:
        return ""
    noun = "rows" if side.operand is run.stages.left else "channels"
    return f"the pointers of {side.operand.letter} move on by {elements // along_row} {noun} a turn, and not along K"


def _k_span(ks: Array, unit: int) -> str:
    if unit == 1 or not len(ks):
        return span(ks)
    return span((ks[:, None] + np.arange(unit)).reshape(-1))


def _loop(run: Run, pairs: Pairs, e: int, need: Array) -> Divergence | None:
    """Both sides agree, and some k are met twice or never."""
    K = run.sizes[2]
    live = pairs.left.live[e] & pairs.right.live[e] & pairs.alive[e]
    counts = np.bincount(pairs.left.k[e][live & (pairs.left.k[e] < K) & (pairs.left.k[e] >= 0)], minlength=K)
    missing, twice = np.flatnonzero(need & (counts == 0)), np.flatnonzero(counts > 1)
    line, unit = pairs.flow.terms[-1].line, pairs.right.operand.unit
    left_out = sorted({int(k) for k in missing % unit})
    if unit > 1 and len(missing) * unit == len(left_out) * K and not len(twice):
        words = f"nibble{'s' if len(left_out) > 1 else ''} {', '.join(map(str, left_out))}"
        return Divergence("nibbles_left_out", LOOP, line, f"k = {span(missing)} is never multiplied", "all eight nibbles of a word",
                       f"{words} of each word {'are' if len(left_out) > 1 else 'is'} left out", pairs.program)  # fmt: skip
    by_turn = _by_turn(pairs, pairs.left, e)
    depth = max(len(np.unique(ks)) for ks in by_turn)
    if len(twice):
        return _met_again(run, pairs, by_turn, depth, alone=bool((pairs.right.k[e][live] != pairs.left.k[e][live]).any()) and unit == 1)
    return _never_met(run, pairs, e, need, missing, depth) if len(missing) else None


def _never_met(run: Run, pairs: Pairs, e: int, need: Array, missing: Array, depth: int) -> Divergence:
    """Why these k are never multiplied. depth: of a tile along K."""
    K, unit = run.sizes[2], pairs.right.operand.unit
    turns, line = int(pairs.turn.max()) + 1, pairs.flow.terms[-1].line
    asked = [np.isin(missing, side.k[e][side.asked[e] & pairs.alive[e]]).all() for side in (pairs.left, pairs.right)]
    if (run.stages.needed is None and unit == 1 and all(asked)) or (asked[0] and unit > 1):
        return Divergence("k_mask_too_short", LOAD, run.line_of_load(int(pairs.left.node[0]), pairs.left.operand.tensor),
                       f"the masks leave out k = {span(missing)}, which the addresses reach", f"a mask that ends at K = {K}",
                       "the masks of the loads end before K does", pairs.program)  # fmt: skip
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


def _met_again(run: Run, pairs: Pairs, by_turn: Sequence[Array], depth: int, *, alone: bool) -> Divergence | None:
    """The first turn that multiplies what an earlier one did. by_turn: the k of X in each turn; alone: W has others."""
    seen: set[int] = set()
    for turn, ks in enumerate(by_turn):
        again = seen & set(ks[ks < run.sizes[2]].tolist())
        if again:
            step = int(ks.min() - by_turn[turn - 1].min()) if turn else 0
            name = "k_not_advanced" if step == 0 else "advanced_by_one" if step == 1 else "k_met_twice"
            reason = "neither operand moves on from turn to turn" if step == 0 else (
                f"the tiles of neighbouring turns are {step} apart and {depth} deep, so k is met more than once")  # fmt: skip
            who = "the left operand holds" if alone else "both operands hold"
            if alone:
                reason = "X does not move on as W does" + (": it stays where it is" if step == 0 else f", by {step} of k a turn")
            return Divergence(name, ADVANCE, run.line_of_load(int(pairs.left.node[0]), pairs.left.operand.tensor),
                           f"{who} k = {span(ks)}, of which {span(np.array(sorted(again)))} was multiplied before",
                           "every k once", reason, pairs.program, turn)  # fmt: skip
        seen |= set(ks.tolist())
    return None


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
        return "the last, partial tile of K is left out: the number of turns is rounded down"
    return "the loop makes too few turns"
