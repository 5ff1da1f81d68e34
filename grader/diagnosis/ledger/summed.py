"""Is every k met exactly once, with the same k on both sides?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.diagnosis.ledger import slices
from grader.diagnosis.ledger.advancing import advance, drifting
from grader.diagnosis.ledger.blocks import looked_up_by
from grader.diagnosis.ledger.looping import behind_the_end, beyond_the_end, round_k, tail_again, too_short
from grader.diagnosis.ledger.pairs import Pairs, Run, Side, span
from grader.diagnosis.ledger.provenance import Array
from grader.diagnosis.ledger.turns import asked_by_turn, k_span, several_times, times_met
from grader.labs.divergence import ADVANCE, LOAD, PAIR, Divergence
from grader.labs.stages import UNKNOWN_ELEMENT


def look(run: Run, pairs: Pairs, *, whole: bool) -> list[Divergence]:
    """What is wrong with the summed index. whole: all of K belongs into this store."""
    e = int(np.argmax((pairs.left.live & pairs.right.live & pairs.alive).sum(axis=1)))
    need = np.ones(run.sizes[2], dtype=bool)
    if run.stages.needed is not None:
        need = run.stages.needed(run.problem)[pairs.n[e]]
    if again := tail_again(run, pairs, e):
        return [again]
    if not whole:
        return _only_pairs(run, pairs, e)
    masked = _masked_rows(run, pairs, e)
    return [masked] if masked else _both_sides(run, pairs, e, need)


def _both_sides(run: Run, pairs: Pairs, e: int, need: Array) -> list[Divergence]:
    """Of a store into which all of K belongs: each side against what is needed, and against the other. need: bool [K]."""
    left_good, right_good = _complete(run, pairs, e, need)
    if (behind := beyond_the_end(pairs, e, len(need))).any():
        return [behind_the_end(run, pairs, e, behind)]
    if right_good and not left_good and (astray := _beside_nibbles(run, pairs, e)):
        return [astray]
    if _paired_wrongly(run, pairs, e, left_good, right_good):
        return _only_pairs(run, pairs, e)
    if left_good and right_good:
        return []
    if run.stages.needed is not None or not (_apart(pairs, e).any() or _one_sided(pairs, e)):
        found = round_k(run, pairs, e, need)
        return [found] if found else _only_pairs(run, pairs, e)
    wrong = [side for side, good in ((pairs.left, left_good), (pairs.right, right_good)) if not good]
    return _moving(run, pairs, e, wrong) or _only_pairs(run, pairs, e)


def _paired_wrongly(run: Run, pairs: Pairs, e: int, left_good: bool, right_good: bool) -> bool:
    """Whether products of different k are what is wrong, and not how far a side moves on."""
    if not _apart(pairs, e).any():
        return False
    if right_good and (left_good or run.stages.needed is not None):
        return True
    return not left_good and several_times(pairs, pairs.left, e)  # no tile of X, whose depth would say how far it should move on


def _moving(run: Run, pairs: Pairs, e: int, sides: Sequence[Side]) -> list[Divergence]:
    """How sides that do not meet every k move on from turn to turn; beside one that does not, the other may end too early.

    Nothing where the first turn asks for more k on one side than on the other: then neither is a tile's depth.
    """
    if len({len(np.unique(asked_by_turn(pairs, side, e)[0])) * side.operand.unit for side in (pairs.left, pairs.right)}) > 1:
        return []
    each = [(side, advance(run, pairs, side, e)) for side in sides]
    findings = [finding for _, finding in each if finding]
    orderly = next((side for side, finding in each if not finding), None)
    return [*findings, *too_short(run, pairs, orderly, e)] if findings and orderly else findings


def _apart(pairs: Pairs, e: int) -> Array:
    """bool [P]: the products of different k, or of an element of X and a word that holds others."""
    left, right, unit = pairs.left, pairs.right, pairs.right.operand.unit
    found: Array = left.live[e] & right.live[e] & pairs.alive[e] & (left.k[e] // unit != right.k[e] // unit)
    return found


def _complete(run: Run, pairs: Pairs, e: int, need: Array) -> tuple[bool, bool]:
    """Whether X, and whether W, has every k that is needed once. need: bool [K]."""
    left, right, K = pairs.left, pairs.right, len(need)
    unit, wanted = right.operand.unit, need.astype(int)
    left_good = bool((times_met(left, pairs, e, K) == wanted).all())
    if run.stages.subtracted:  # a tile may go on behind the end of its group, where the other side is masked
        left_good |= bool((times_met(replace(left, live=left.live & right.live), pairs, e, K) == wanted).all())
    each = wanted if unit == 1 else wanted.reshape(-1, unit)[:, 0] * unit
    return left_good, bool((times_met(right, pairs, e, K) == each).all())


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
        if stays := _words_stay(run, pairs, e, p):
            return stays
        held = k_span(right.k[e, p : p + 1], unit)
        return Divergence(
            "k_orders_differ", PAIR, line, f"k = {left.k[e, p]} of X meets word {right.k[e, p] // unit}, which holds k = {held}",
            f"an element of k = {held}", f"a product takes {each} of the {unit} nibbles of each word, and its elements of X are not those "
            "of the word", pairs.program, turn,
        )  # fmt: skip
    return Divergence(
        "nibble_not_in_x", PAIR, line, f"all {unit} nibbles of a word are multiplied, with k = {span(left.k[e][live])} of X alone",
        "each nibble with the k that is its own", "different nibbles of a word meet the same element of X", pairs.program, turn,
    )  # fmt: skip


def _words_stay(run: Run, pairs: Pairs, e: int, p: int) -> Divergence | None:
    """Words that are those of the first turn again, while X has moved on to others, where pair p is the first that differs."""
    left, right, unit, turn = pairs.left, pairs.right, pairs.right.operand.unit, int(pairs.turn[p])
    first, here = (np.flatnonzero(pairs.turn == one) for one in (0, turn))
    if len(first) != len(here):
        return None
    use = (left.live[e] & right.live[e] & pairs.alive[e])[here]
    first, here = first[use], here[use]
    if (right.k[e][here] != right.k[e][first]).any() or (left.k[e][here] // unit == left.k[e][first] // unit).any():
        return None
    return Divergence(
        "k_not_advanced", ADVANCE, run.line_of_load(int(right.node[p]), right.operand.tensor),
        f"k = {left.k[e, p]} of X meets word {right.k[e, p] // unit}, as k = {left.k[e][first][0]} did in turn 0",
        f"word {left.k[e, p] // unit}", "X moves on, and the words of W do not: the same ones are loaded again", pairs.program, turn,
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


def _one_sided(pairs: Pairs, e: int) -> bool:
    """Whether a side is masked where the other is not, in a way that loses products."""
    only_left = pairs.left.live[e] & ~pairs.right.live[e] & pairs.alive[e] & (pairs.left.value[e] != 0)
    only_right = pairs.right.live[e] & ~pairs.left.live[e] & pairs.alive[e] & (pairs.right.value[e] != 0)
    return bool((only_left | only_right).any())


def _only_pairs(run: Run, pairs: Pairs, e: int) -> list[Divergence]:
    """Both sides are complete, but their orders differ."""
    left, right, unit, bad = pairs.left, pairs.right, pairs.right.operand.unit, _apart(pairs, e)
    if not bad.any():
        return []
    if found := slices.of_one_side(run, pairs, e, left.live[e] & right.live[e] & pairs.alive[e]) or _beside_nibbles(run, pairs, e):
        return [found]
    if found := slices.within_word(run, pairs, e, left.live[e] & right.live[e] & pairs.alive[e]):
        return [found]
    later = pairs.turn[bad & (pairs.turn > 0)]
    if len(later) and (found := drifting(run, pairs, e, int(later.min()), started=len(later) == bad.sum())):
        return [found]
    p = int(np.flatnonzero(bad)[0])
    if found := _words_begin_at_k(run, pairs, e, p):
        return [found]
    line = pairs.flow.terms[int(pairs.term[p])].line
    place = int(p - np.flatnonzero(pairs.term == pairs.term[p])[0])
    words = f" (word {right.k[e, p] // unit})" if unit > 1 else ""
    reason = "the columns of X are not those of the block that they meet"
    if run.stages.needed is not None:
        reason += _astray_from_index(run, pairs, e, bad)
    else:
        gap = np.unique(right.k[e, bad] // unit - left.k[e, bad] // unit) * unit
        reason = "X and W are multiplied in different orders of k"
        if again := next((side for side in (left, right) if several_times(pairs, side, e)), None):
            reason = f"a tile takes the same elements of {again.operand.letter} several times"
            line = run.line_of_load(int(again.node[p]), again.operand.tensor) or line
        elif len(gap) == 1:
            reason = f"W is taken {abs(gap[0])} of k {'ahead of' if gap[0] > 0 else 'behind'} X"
            line = _line_astray(run, pairs, e, bad) or line
    return [Divergence(
        "k_orders_differ", PAIR, line,
        f"place {place} of the summed axis holds k = {left.k[e, p]} of X and k = {k_span(right.k[e, p : p + 1], unit)} of W{words}",
        "the same k on both sides", reason, pairs.program, int(pairs.turn[p]),
    )]  # fmt: skip


def _line_astray(run: Run, pairs: Pairs, e: int, bad: Array) -> int | None:
    """Where the one of two sides is loaded that does not begin with k = 0, as the other does. bad: bool [P], products of different k."""
    begins = {side.operand.letter: int(side.k[e, bad].min()) for side in (pairs.left, pairs.right)}
    astray = [side for side in (pairs.left, pairs.right) if begins[side.operand.letter]]
    return run.line_of_load(int(astray[0].node[0]), astray[0].operand.tensor) if len(astray) == 1 else None


def _words_begin_at_k(run: Run, pairs: Pairs, e: int, p: int) -> Divergence | None:
    """Words of a tile that begin with the one whose number is the tile's first k. p: the first product of different k."""
    left, right, unit, turn = pairs.left, pairs.right, pairs.right.operand.unit, int(pairs.turn[p])
    here = left.live[e] & right.live[e] & pairs.alive[e] & (pairs.turn == turn)
    begin = int(left.k[e][here].min())
    if unit == 1 or not begin or (right.k[e][here] // unit != begin + (left.k[e][here] - begin) // unit).any():
        return None
    held = f"k = {begin * unit}:{(begin + 1) * unit}"
    return Divergence(
        "words_advanced_too_far", ADVANCE, run.line_of_load(int(right.node[p]), right.operand.tensor),
        f"k = {begin} of X meets word {begin} of W, which holds {held}", f"word {begin // unit}",
        f"the words of a tile begin at the number of its first k; a word holds {unit} of k, so k has to be divided by {unit}",
        pairs.program, turn,
    )  # fmt: skip


def _astray_from_index(run: Run, pairs: Pairs, e: int, bad: Array) -> str:
    """What goes on in a sentence on columns of X that meet a foreign block: which of the two is not made of b; "" where that is unknown.

    bad: bool [P], the products of different k.
    """
    block = pairs.right.offset[e, bad] // run.problem.tensors[pairs.right.operand.tensor].stride(0)
    looked_up = looked_up_by(run, pairs.left)[e, bad]
    if (looked_up == block).all():
        return ", though its column index is the one that was loaded: k is column index * BLOCK + place in the block"
    known = (looked_up != UNKNOWN_ELEMENT).all()
    return ": both come from one b, as col_indices[b] and as block b" if known else ""
