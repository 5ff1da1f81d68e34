"""Column value: do the operands hold the numbers that belong to the elements they were loaded from?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from grader.diagnosis.flow import Addend
from grader.diagnosis.history import HistoryStep, line_of_change, parting, sentence_of, way
from grader.diagnosis.observation import Observation, plain
from grader.diagnosis.provenance import FAR, OFFSET, Array
from grader.diagnosis.relation import Products, Run, Side, beside, held_elements
from grader.diagnosis.scales import made_otherwise, other_element, taken_elements
from grader.labs.expected import Held, elements

LOOSE = 2e-3
"""How far rounding to fp16 may take a number off, relative to it."""
POWERS = (1, 0, -1, 2)
"""Of a scale that an operand was made with, in the order in which they are tried."""
NEARLY_ALL = 0.9
"""So many of W's numbers are off alike where a kernel means them to be: that is not a mistake, if sums of X make up for it."""


def check_values(run: Run, products: Products) -> tuple[list[Observation], Array]:
    """What is wrong with the operands' numbers, and the scales that they hold beside them: [E, P], NaN where
    that is not known."""
    found: list[Observation] = []
    held = np.ones(products.left.value.shape)
    for name in ("right", "left"):
        side = products.side(name)
        use, row, k = _elements(run, products, side)
        if not use.any():
            continue
        elements_used = held_elements(run, side)
        needs = side.operand.needs
        used = {}
        if needs:
            taken = held_elements(run, side, masked=False).get(needs, np.full(use.shape, -1))[use]
            own = elements(run.problem, needs, row)
            used[needs] = np.where(taken >= 0, elements(run.problem, needs, taken), own)
            scale = next(one for one in run.expected.scales if one.tensor == needs)
            text = f"{side.operand.letter}[{{row}}, {{k}}] is converted with {{element}}"
            places = np.nonzero(use)
            # that of Y's own row is right as well, whatever row is met
            right = np.where(taken == products.rows(side)[places[0]], taken, row)
            found += other_element(run, products, side, scale, (places[0], places[1]), taken, right, text)
        expected = side.operand.held(run.problem, row, k, used)
        if name == "right":
            offset = common_offset(run, products)
            expected = replace(expected, value=expected.value + (0.0 if math.isnan(offset) else offset))
        factor, wrong = _best_factor(run, side, use, elements_used, expected.value, expected.permitted)
        held[use] *= factor
        if elements_used.keys() - {needs}:
            held[~use] = np.nan
        if wrong.any():
            e, p = (int(i) for i in np.argwhere(use)[int(np.flatnonzero(wrong)[0])])
            exact = float(used[needs][int(np.flatnonzero(wrong)[0])]) if needs else 0.0
            made = []
            if exact and needs in run.provenance.sources(int(side.node[p])):
                made = made_otherwise(run, products, side, scale, (e, p), (exact, 1 / exact), column="value", room=1e-6)
            found += made or [_observed(run, products, name, use, wrong, expected, factor)]
    return found, held


def makes_up(run: Run, products: Products, addend: Addend) -> bool:
    """Whether what is added is made of the left operand, with or without scales, and so may make up for an offset of the right one."""
    left = products.left.operand.tensor
    return left in addend.sources and addend.sources <= {left, *(scale.tensor for scale in run.expected.scales)}


def common_offset(run: Run, products: Products) -> float:
    """By how much nearly all numbers of the right operand are too large, where sums of the left one alone are added and may make up for
    that; else by how much they would have to be, and where that differs, by how much most are. NaN: not known. 0 where there are none."""
    side = products.right
    if not any(makes_up(run, products, addend) for addend in products.flow.addends) or side.operand.needs:
        return 0.0
    use, row, k = _elements(run, products, side)
    apart, counts = np.unique(side.value[use] - side.operand.held(run.problem, row, k, {}).value, return_counts=True)
    share = counts.max() / counts.sum() if len(apart) else 0.0
    if share > NEARLY_ALL:
        return float(apart[counts.argmax()])
    added = sum(
        (one.values for one in products.flow.addends if makes_up(run, products, one)), np.zeros(len(products.m))
    )
    made_up = -added / sums_of_left(products)
    usual = float(np.median(made_up))
    if np.allclose(made_up, usual, rtol=1e-2):
        return round(usual)
    return float(apart[counts.argmax()]) if share > 0.5 else math.nan


def sums_of_left(products: Products) -> Array:
    """[E]: the sum of the left operand's numbers, each with its factor."""
    found = np.zeros(len(products.m))
    for term in products.flow.terms:
        found += np.where(term.alive, term.factor * term.left.values, 0.0).sum(axis=1)
    return found


def _elements(run: Run, products: Products, side: Side) -> tuple[Array, Array, Array]:
    """Where a side holds elements that the lab knows, bool [E, P]; and their rows and k, of words the k of the other side."""
    M, N, K = run.sizes
    other = products.other(side)
    unit, rows = side.operand.unit, M if side is products.left else N
    k = side.k if unit == 1 else other.k
    use = side.live & products.alive & (side.row >= 0) & (side.row < rows) & (k >= 0) & (k < K)
    if unit > 1:
        use &= other.live & products.meets
    if side.operand.strides:  # what lies between two elements is neither
        along_row, along_k = (run.problem.scalars[name] for name in side.operand.strides)
        use &= side.offset == side.row * along_row + side.k // unit * along_k
    return use, side.row[use], k[use]


def _best_factor(
    run: Run, side: Side, use: Array, elements_used: Mapping[str, Array], value: Array, permitted: Array | float
) -> tuple[Array, Array]:
    """Which power of each scale in an operand explains most of its numbers: the factor, and where numbers are still wrong."""
    inside = [one.tensor for one in run.expected.scales if one.tensor in elements_used.keys() - {side.operand.needs}]
    best = None
    for powers in itertools.product(POWERS, repeat=len(inside)):
        factor = np.ones_like(value)
        for tensor, power in zip(inside, powers, strict=True):
            taken = elements_used[tensor][use]
            factor = factor * np.where(taken >= 0, elements(run.problem, tensor, taken), 1.0) ** power
        room = LOOSE * np.abs(value * factor) + permitted * np.abs(factor)
        wrong = ~(np.abs(side.value[use] - value * factor) <= room + 1e-12) & ~np.isnan(value)
        if best is None or wrong.sum() < best[1].sum():
            best = (factor, wrong)
    assert best is not None
    return best


def _observed(
    run: Run, products: Products, name: str, use: Array, wrong: Array, expected: Held, factor: Array
) -> Observation:
    """The first wrong number of an operand, and how it came about. expected, factor: of the elements in use."""
    side, places = products.side(name), np.argwhere(use)
    at = int(np.flatnonzero(wrong)[0])
    e, p = (int(i) for i in places[at])
    other = products.other(side)
    columns = (side.k if side.operand.unit == 1 else other.k)[use]
    links = way(run, int(side.node[p]), int(side.lanes[e, p]), side.operand.tensor)
    steps, right = sentence_of(links), float(expected.value[at] * factor[at])
    text = f"{side.operand.letter}[{side.row[use][at]}, {columns[at]}] is multiplied as {plain(side.value[e, p])}"
    text += f" ({steps})" if steps else ""
    bare = side.value[use] / factor
    values = np.column_stack([side.row[use], columns, bare])
    before = None if expected.before is None else float(expected.before[at])
    bits = None if expected.bits is None else int(expected.bits[at])
    line = _line_of_order(run, products, side, use, expected.value * factor, e, p) if bits is not None else None
    needs = side.operand.needs
    if not needs or needs in run.provenance.sources(int(side.node[p])):  # else each step may be right
        line = line or line_of_change(run, links, (right,), before, bits)
    used = products.flow.terms[int(products.term[p])].line
    return products.seen("value", name, line or used, text, plain(right), values=values, p=p, hedged=line is None)


def _line_of_order(run: Run, products: Products, side: Side, use: Array, right: Array, e: int, p: int) -> int | None:
    """Where the elements of a word got another order: if in every word the right one is at another place, or this place holds what
    belongs to another, while others are right. right: of those in use."""
    unit, k, wanted = side.operand.unit, np.zeros(use.shape, dtype=np.int64), np.full(use.shape, np.nan)
    k[use] = products.other(side).k[use]
    wanted[use] = right
    word, place = side.row * FAR + k // unit, k % unit

    def holds(one: int, other: int) -> bool:
        """Whether a place of every word holds what belongs to another."""
        there, known = use & (place == one), use & (place == other)
        words, first = np.unique(word[known], return_index=True)
        at = np.minimum(np.searchsorted(words, word[there]), len(words) - 1)
        of_word = np.where(words[at] == word[there], wanted[known][first][at], np.nan)
        return len(of_word) > unit and bool((np.abs(side.value[there] - of_word) <= LOOSE * np.abs(of_word)).all())

    alike = (products.term == products.term[p]) & (side.node == side.node[p]) & (k[e] // unit == k[e, p] // unit)
    others = {int(place[e, q]): int(side.lanes[e, q]) for q in np.flatnonzero(use[e] & alike & (k[e] != k[e, p]))}
    own, lane = int(place[e, p]), int(side.lanes[e, p])
    moved = [there for one, there in others.items() if holds(one, own)]
    if not moved and any(holds(own, one) for one in others):
        moved = [there for one, there in others.items() if holds(one, one)]
    lines = (parting(run, int(side.node[p]), (lane, there), side.operand.tensor) for there in moved)
    return next((line for line in lines if line), None)


def check_weight(run: Run, products: Products) -> list[Observation] | None:
    """Of labs that know only what X is multiplied by all in all: where that is wrong; None where the lab knows the parts."""
    if run.expected.weight is None:
        return None
    _, N, K = run.sizes
    left, right = products.left, products.right
    extra, extra_used = beside(run, products)
    use = products.live & products.meets & (left.k < K) & (left.k >= 0) & (right.row >= 0) & (right.row < N)
    if not use.any():
        return []
    e, p = np.nonzero(use)
    n, k = right.row[use], left.k[use]
    weight = run.expected.weight(run.problem)
    total = right.value[use] * products.factor[use] + extra[e, k]
    room = np.broadcast_to(weight.permitted, weight.value.shape)[n, k]
    wrong = ~(np.abs(total - weight.value[n, k]) <= room + 1e-12)
    if not wrong.any():
        return []
    at = int(np.flatnonzero(wrong)[0])
    chosen = {
        scale.tensor: _chosen(run, products, use, scale.tensor, extra_used.get(scale.tensor))
        for scale in (*run.expected.scales, *run.expected.subtracted)
    }
    if found := _parts_wrong(run, products, (e, p), wrong, chosen):
        return found
    links = way(run, int(right.node[p[at]]), int(right.lanes[e[at], p[at]]), right.operand.tensor)
    steps = sentence_of(links)
    text = f"X[{left.row[e[at], p[at]]}, {k[at]}] is multiplied by {plain(total[at])} in total"
    text += f"; the operand holds {plain(right.value[e[at], p[at]])}" + (f" ({steps})" if steps else "")
    words = run.expected.weight_words
    expected = f"W[{n[at]}, {k[at]}] = {plain(weight.value[n[at], k[at]])}"
    expected += f" = {words(run.problem, int(n[at]), int(k[at]))}" if words else ""
    values = np.column_stack([n, k, total])
    line = _line_of_weight(run, products, (int(e[at]), int(p[at])), links, added=bool(extra[e[at], k[at]]))
    line = line or products.flow.terms[int(products.term[p[at]])].line
    return [products.seen("value", "weight", line, text, expected, values=values, p=p[at])]


def _line_of_weight(
    run: Run, products: Products, at: tuple[int, int], links: list[HistoryStep], *, added: bool
) -> int | None:
    """Where a weight became a wrong number. links: of the right operand's element; added: whether a sum of X adds to it."""
    left, right = products.left, products.right
    n, k = right.row[at], left.k[at]
    bits = right.operand.held(run.problem, np.array([n]), np.array([k]), {}).bits
    own = [link for link in links if run.provenance.sources(link.node) <= {right.operand.tensor}]
    # where its own bits are kept, what it was put together with is wrong
    intact = bits is None or (own and own[-1].value in (bits[0], bits[0] + 1024))
    asked = left.offset[at] + OFFSET
    beside = [term for term in products.flow.beside if asked in term.left.asked[at[0]]]
    taken_off = [factor.line for term in beside for factor in term.factors]
    if taken_off and intact and added:  # the operand is right, and so what is taken off is not
        return taken_off[-1]
    return line_of_change(run, links if intact else own, (), bits=None if bits is None else int(bits[0]))


def _chosen(run: Run, products: Products, use: Array, tensor: str, extra: Array | None) -> Array:
    """The element of a tensor that each of some products has, in its operand or beside it: [n]."""
    taken = taken_elements(run, products, tensor)
    chosen = np.full(int(use.sum()), -1) if taken is None else taken[use]
    e, _ = np.nonzero(use)
    return chosen if extra is None else np.where(chosen >= 0, chosen, extra[e, products.left.k[use]])


def _parts_wrong(
    run: Run, products: Products, places: tuple[Array, Array], wrong: Array, chosen: Mapping[str, Array]
) -> list[Observation]:
    """Scales, and what is subtracted, that are other elements than those that belong to a weight, or else are made into other numbers."""
    e, p = places
    right, n, k = products.right, products.right.row[places], products.left.k[places]
    found = []
    for scale in (*run.expected.scales, *run.expected.subtracted):
        own, text = scale.at(run.problem, products.m[e], n, k), "for W[{row}, {k}], {element} is used"
        taken = np.where(wrong, chosen[scale.tensor], -1)
        found += other_element(run, products, right, scale, places, taken, own, text)
    at = int(np.flatnonzero(wrong)[0])
    for scale in () if found else run.expected.subtracted:
        may = scale.numbers(run.problem, int(n[at]), int(k[at])) if scale.numbers else ()
        bits, first = (int(may[1]) if may else None), (int(e[at]), int(p[at]))
        found += made_otherwise(run, products, right, scale, first, may, column="value", room=0.0, bits=bits)
    return found
