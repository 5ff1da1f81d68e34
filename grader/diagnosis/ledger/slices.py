"""SPLIT_K: do the slices of a tile meet every k once together, and does each know of its place on both sides?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from grader.diagnosis.ledger.looping import met_again
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, span
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.turns import asked_by_turn, times_met
from grader.labs.divergence import ADVANCE, LOAD, LOOP, Divergence


def look(run: Run, followed: Sequence[Pairs]) -> list[Divergence]:
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
    wrong = _wrong_slices(run, whole, max(by_side, key=lambda counts: np.count_nonzero(np.sum(counts, axis=0))))
    return [wrong] if wrong else []


def _each_k(side: Side, pairs: Pairs, K: int) -> Array:
    """int [K]: how often a side meets each k, for the first element of Y; of words that hold several k, how often whole."""
    unit = side.operand.unit
    return np.repeat(times_met(side, pairs, 0, K) // unit, unit)[:K]


def _all_recorded(run: Run, parts: Sequence[Pairs]) -> bool:
    """Whether all programs that store to a tile are among these."""
    programs = {pairs.program for pairs in parts}
    shared = [one for one in run.tape.stores if one.program in programs and one.tensor == run.lab.output]
    places = {(one.lowest, one.highest) for one in shared}
    return programs == {one.program for one in run.tape.stores if (one.lowest, one.highest) in places}


def _wrong_slices(run: Run, parts: Sequence[Pairs], counts: Sequence[Array]) -> Divergence | None:
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
    if (alone := next((place for place, count in enumerate(counts) if (count > 1).any()), None)) is not None:
        return _again_in_slice(run, parts[alone], counts[alone])
    missing, twice = np.flatnonzero(total == 0), np.flatnonzero(total > 1)
    if len(missing) and _one_slice(run):
        return Divergence(
            "slices_leave_out", LOOP, line, f"{first}, and no other program adds to its tile: the grid is {run.grid}",
            f"{split} programs for each tile of Y", "the grid has one program for each tile, and SPLIT_K asks for several slices",
        )  # fmt: skip
    if len(twice):
        return Divergence("slices_overlap", LOOP, line, f"{first}; k = {span(twice)} is in more than one slice",
                        "every k in one slice", _overlap(parts, counts))  # fmt: skip
    if all(_reached(side, missing) for side in ([one.left for one in parts], [one.right for one in parts])):
        load = run.line_of_load(int(parts[-1].left.node[0]), parts[-1].left.operand.tensor)
        return Divergence("k_mask_too_short", LOAD, load, f"{first}; the masks leave out k = {span(missing)}, which the addresses reach",
                          f"masks that end at K = {K}", "the masks of the slices' loads end before K does")  # fmt: skip
    return Divergence("slices_leave_out", LOOP, line, f"{first}; k = {span(missing)} is in no slice",
                    "every k in one slice", "the slices of K do not reach its end" if missing[-1] == K - 1 else
                    "the slices of K leave a part of it out")  # fmt: skip


def _reached(sides: Sequence[Side], missing: Array) -> bool:
    """Whether the addresses of a side reach these k in some slice, whatever its mask makes of them."""
    unit = sides[0].operand.unit
    asked = np.concatenate([side.k[0][side.asked[0]] // unit for side in sides])
    return bool(np.isin(missing // unit, asked).all())


def _again_in_slice(run: Run, pairs: Pairs, count: Array) -> Divergence | None:
    """A slice that meets some k several times by itself. count: how often it meets each k."""
    by_turn = asked_by_turn(pairs, pairs.left, 0)
    return met_again(run, pairs, by_turn, max(len(np.unique(ks)) for ks in by_turn), alone=False)


def _one_slice(run: Run) -> bool:
    """Whether the grid has too few programs for more than one slice of a tile, and each tile that is stored comes from one."""
    stored = [one for one in run.tape.stores if one.tensor == run.lab.output]
    tiles = {(one.lowest, one.highest) for one in stored}
    return math.prod(run.grid) == len({one.program for one in stored}) == len(tiles)


def _overlap(parts: Sequence[Pairs], counts: Sequence[Array]) -> str:
    """How slices come to meet the same k."""
    begins, ends = ([int(np.flatnonzero(count)[end]) for count in counts if count.any()] for end in (0, -1))
    words = parts[0].right
    depth = len(np.unique(words.k[0][parts[0].turn == 0])) * words.operand.unit
    apart = set(np.diff(np.sort(begins)).tolist())
    if apart == {words.operand.unit} and depth > words.operand.unit:
        return (f"slices begin {words.operand.unit} of k apart, and a turn takes {depth}: the number of the slice is not multiplied by "
                "the depth of a tile")  # fmt: skip
    if set(ends) == {len(counts[0]) - 1} and apart == {depth}:
        return ("slices begin one tile apart and go on, tile by tile, to the end of K: each has to end where the next one begins, or to "
                "move on by one tile for each slice")  # fmt: skip
    if max(apart, default=depth) < depth:
        begin = span(np.array(sorted(apart)))
        return f"slices begin {begin} of k apart, and a turn takes {depth}: it goes on into what the next slice takes"
    over = {end + 1 - begin for begin, end in zip(begins, ends, strict=True) if end + 1 < len(counts[0])}
    step = min(apart, default=depth)
    if len(apart) == 1 and step % depth and over == {-(-step // depth) * depth}:
        return (f"slices begin {step} of k apart, which is no multiple of the {depth} that a turn takes: the last turn of a slice goes on "
                "into the next one, and its mask has to end where the slice does")  # fmt: skip
    unbroken = all(len(ks) == ks[-1] - ks[0] + 1 for count in counts if len(ks := np.flatnonzero(count)))
    if set(ends) == {len(counts[0]) - 1} and unbroken:
        return "every slice goes on to the end of K, not to where the next one begins"
    return "neighbouring slices of K overlap"


def within_word(run: Run, pairs: Pairs, e: int, live: Array) -> Divergence | None:
    """A slice of K that begins inside a word, whose words are counted from that one on. live: bool [P]."""
    left, right = pairs.left, pairs.right
    unit, split = right.operand.unit, run.config.split_k
    if unit == 1 or split == 1 or not live.any():
        return None
    begin = int(left.k[e][live].min())
    word = begin // unit
    if begin % unit == 0 or (right.k[e][live] // unit != word + (left.k[e][live] - begin) // unit).any():
        return None
    held = f"k = {word * unit}:{(word + 1) * unit}"
    return Divergence(
        "slices_overlap", LOOP, pairs.flow.terms[-1].line,
        f"the slice of program {pairs.program} begins with k = {begin}, inside word {word} of W, which holds {held}",
        "slices that begin where a word does",
        f"the length of a slice is no multiple of the {unit} that a word holds; round it up to whole tiles of BLOCK_K", pairs.program,
    )  # fmt: skip


def of_one_side(run: Run, pairs: Pairs, e: int, live: Array) -> Divergence | None:
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
