"""Which k does a side ask for, turn by turn and in all?"""

from __future__ import annotations

import numpy as np

from grader.diagnosis.ledger.pairs import Pairs, Side, span
from grader.diagnosis.ledger.provenance import Array


def several_times(pairs: Pairs, side: Side, e: int) -> bool:
    """Whether the first turn asks for an element, or for one of a word oftener than it has elements, in several of its places."""
    first = asked_by_turn(pairs, side, e)[0]
    return len(np.unique(first)) * side.operand.unit < len(first)


def times_met(side: Side, pairs: Pairs, e: int, K: int) -> Array:
    unit = side.operand.unit
    use = side.live[e] & pairs.alive[e] & (side.k[e] >= 0) & (side.k[e] < K)
    return np.bincount(side.k[e][use] // unit, minlength=-(-K // unit))


def asked_by_turn(pairs: Pairs, side: Side, e: int) -> list[Array]:
    """For each turn the k that the side asked for, in order, masked or not."""
    turns = range(int(pairs.turn.max()) + 1)
    use = side.asked[e] & pairs.alive[e]
    return [side.k[e][use & (pairs.turn == turn)] for turn in turns]


def k_span(ks: Array, unit: int) -> str:
    if unit == 1 or not len(ks):
        return span(ks)
    return span((ks[:, None] + np.arange(unit)).reshape(-1))
