"""Columns count and mask: is every k multiplied exactly once, and is what a mask leaves out 0 where it meets something?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.diagnosis.definition import (
    inside_loop,
    is_cut,
    line_of_idle_product,
    line_of_skip,
)
from grader.diagnosis.fit import named
from grader.diagnosis.looping import line_of_cover, right_end
from grader.diagnosis.mending import line_of_operands_mask, line_of_place
from grader.diagnosis.observation import Number, Observation, plain, span
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, Side, element, load_of, needed_of, rounds_begun
from grader.diagnosis.statements import loops_around
from grader.diagnosis.stores import stores_to_output
from grader.model import place_in


def check_counts(run: Run, parts: Sequence[Products]) -> list[Observation]:
    """How often each k is in the sum of an element of Y. parts: of the programs that share a tile, or of one alone."""
    one, e = parts[0], 0
    K, n = run.sizes[2], int(one.n[e])
    counts, own, needed = np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64), needed_of(run, n)
    found: list[Observation] = []
    for part in parts:
        at = np.flatnonzero((part.m == one.m[e]) & (part.n == one.n[e]))
        if not len(at):
            return []
        counts += _times_met(part, int(at[0]), needed)
        own += _times_met(part, int(at[0]), needed, own=True)
        found = found or _past_the_end(run, part, int(at[0]))
    where = f"Y[{one.m[e]}, {n}]"
    missing, twice = np.flatnonzero(needed & (counts == 0)), np.flatnonzero(own > 1)
    if len(twice):
        text = (
            f"the elements at k = {span(twice)} are multiplied {_often(own[twice])} for {where}{_together(run, parts)}"
        )
        apart = len(parts) > 1 or not one.iterates  # what reaches into the next tile is no step that is too small
        line = _line_of_reach(run, parts, twice) if apart and not len(missing) else None
        line, hedged = (line, True) if line else _line(run, parts, twice)
        found.append(one.seen("count", "twice", line, text, "each k once", hedged=hedged))
    # as many as there should be, so that what is met twice is what is met instead
    if len(missing) and not (len(parts) > 1 and len(twice) and counts.sum() >= needed.sum()):
        found.append(_missing(run, parts, e, missing, where))
    return found


def _times_met(products: Products, e: int, needed: Array, *, own: bool = False) -> Array:
    """int [K]: how often both operands hold this k, of any rows or of the element's own. An operand may come in parts, such as what fp16
    holds of it and what is left: where each of several lines multiplies every k that is needed once, that is once."""
    left, right = products.left, products.right
    met = products.live[e] & products.meets[e] & (left.k[e] >= 0) & (left.k[e] < len(needed))
    if own:
        met &= (left.row[e] == products.m[e]) & (right.row[e] == products.n[e])
    places = [term.place for term in products.flow.terms]
    of_term = np.array([places.index(place) for place in places], dtype=np.int64)[products.term]
    each = [np.bincount(left.k[e][met & (of_term == one)], minlength=len(needed)) for one in np.unique(of_term)]
    parts = len(each) > 1 and all(np.array_equal(one, needed) for one in each)
    return each[0] if parts else np.bincount(left.k[e][met], minlength=len(needed))


def meets_again(run: Run, products: Products) -> bool:
    """Whether a program multiplies some k more than once for its first element."""
    return bool((_times_met(products, 0, needed_of(run, int(products.n[0])), own=True) > 1).any())


def _together(run: Run, parts: Sequence[Products]) -> str:
    """Of slices: what each of them covers."""
    if len(parts) == 1:
        return ""
    of_each = [
        f"program {place_in(run.grid, part.program)} multiplies k = {span(part.left.k[0][part.live[0]])}"
        for part in parts[:3]
        if part.live[0].any()
    ]
    return ": " + ", ".join(of_each) if of_each else ""


def _line(run: Run, parts: Sequence[Products], amiss: Array) -> tuple[int | None, bool]:
    """The condition of a multiplication that was never made; else where the number was made that would let the loops over k meet each once,
    were it another one; else the innermost loop, or the one around it if that never comes to them. And whether that was not tried."""
    one, inside = parts[0], inside_loop(run, parts[0])
    outer = {loop.lineno for loop in loops_around(run.text, one.store.line or 0)}
    loops = [loop.lineno for loop in loops_around(run.text, inside) if loop.lineno not in outer]
    met = np.concatenate([part.left.k[part.live] for part in parts])
    if not np.isin(amiss, met).any():
        loaded = _loaded(run, one, amiss)  # so that it is not the loop that ends elsewhere
        found = (
            line_of_skip(run, inside) if loaded else line_of_idle_product(run, [term.line for term in one.flow.terms])
        )
        if found is not None:
            return found, True
    if line := line_of_cover(run, parts):
        return line, False
    beyond = not met.size or amiss.min() > met.max() or amiss.max() < met.min()
    return loops[1] if len(loops) > 1 and beyond else next(iter(loops), one.store.line), True


def _line_of_reach(run: Run, parts: Sequence[Products], twice: Array) -> int | None:
    """The mask of a whole tile whose last k belong to another tile, which begins there."""
    every = [(part, np.flatnonzero(part.term == term)) for part in parts for term in range(len(part.flow.terms))]
    tiles = [(part, tile[part.left.asked[0, tile]]) for part, tile in every]
    begins = {int(part.left.k[0, tile].min()) for part, tile in tiles if tile.size}
    for part, tile in tiles:
        k = part.left.k[0, tile]
        again, whole = np.isin(k, twice), part.live[0, tile][k < run.sizes[2]].all()
        if whole and again.any() and not again[0] and int(k[again].min()) in begins:
            wrong = part.left.live & np.isin(part.left.k, twice)
            return line_of_operands_mask(run, part, part.left, int(tile[again][0]), wrong)
    return None


def _loaded(run: Run, one: Products, k: Array) -> bool:
    """Whether a program loaded elements of X at some of these k."""
    loads = run.loads(one.program, one.left.operand.tensor)
    places = (one.left.operand.place(run.problem, load.offsets[load.active])[1] for load in loads)
    return any(np.isin(k, along).any() for along in places)


def _often(counts: Array) -> str:
    """How often elements are multiplied, in words."""
    low, high = int(counts.min()), int(counts.max())
    if low < high:
        return f"{low} to {high} times"
    return "twice" if low == 2 else f"{low} times"


def _missing(run: Run, parts: Sequence[Products], e: int, missing: Array, where: str) -> Observation:
    """Some k that no product has: left out by a mask, or never reached.

    Not split: one cause after another, the most certain first; each has a sentence of its own.
    """
    one = parts[0]
    sides = [(one, side) for one in parts for side in (one.left, one.right)]
    for part, side in sides:
        at = int(np.flatnonzero((part.m == one.m[e]) & (part.n == one.n[e]))[0])
        unit, words = side.operand.unit, side.k[at] // side.operand.unit
        masked = _left_out(run, part, side)[at] & (side.row[at] == part.rows(side)[at])
        found = masked & ~np.isin(words, missing // unit) & (side.k[at] < run.sizes[2])
        masked &= ~np.isin(part.lane, part.lane[found])  # lanes whose k another tile has are left out as they should be
        if np.isin(missing // unit, words[masked]).all():
            p = int(np.flatnonzero(masked & np.isin(words, missing // unit))[0])
            access = load_of(run, side, p)
            line = line_of_operands_mask(
                run, part, side, p, _left_out(run, part, side) & np.isin(side.k // unit, missing // unit)
            )
            what = "shape given for" if access and is_cut(run, access) else "mask of"
            text = f"the {what} {side.operand.letter} leaves out k = {span(missing)}, although K = {run.sizes[2]}{_together(run, parts)}"
            return part.seen("count", f"masked {side.operand.letter}", line, text, p=p)
    lost = one.left.live[e] & one.right.live[e] & ~one.alive[e]
    if np.isin(missing, one.left.k[e][lost]).all():
        chosen = (run.tape.nodes[i] for i in run.tape.programs[one.program] if run.provenance.carries(i))
        line = next((node.line for node in chosen if node.op == "select"), one.store.line)
        text = f"the products of k = {span(missing)} do not reach {where}"
        return one.seen("count", "lost", line, text, "each k once")
    unit = one.right.operand.unit
    for part in parts:
        at = int(np.flatnonzero((part.m == one.m[e]) & (part.n == one.n[e]))[0])
        for side, other in ((part.left, part.right), (part.right, part.left)):
            there = np.flatnonzero(other.live[at] & np.isin(other.k[at] // unit, missing // unit) & side.asked[at])
            mismatched = side.k[at, there] // unit != other.k[at, there] // unit
            if len(there) and mismatched.all():  # and so outside its tensor
                p = int(there[0])
                line = line_of_place(run, part, side, p)
                access, letter = load_of(run, side, p), side.operand.letter
                what = f"the shape given for {letter}" if access and is_cut(run, access) else f"{letter}'s mask"
                text = f"for {where}, {element(run, other, at, p)} is multiplied by {element(run, side, at, p)}, which {what} excludes"
                return part.seen("k", "meet", line, text, "the same k in both operands", p=p)
    rounds = np.zeros(0) if one.round is None else one.round
    made, depth = len(np.unique(rounds)), int((rounds == 0).sum())
    text = f"k = {span(missing)} is never multiplied for {where}{_together(run, parts)}"
    numbers: tuple[Number, ...] = ()
    alone = len(stores_to_output(run, one.program)) == len({term.place for term in one.flow.terms}) == 1
    if depth and alone and made == len(rounds_begun(run, one.program, one.flow.terms, one.store)):
        text += f": the loop runs {made} iteration{'s' if made != 1 else ''} of {{0}}"
        numbers = (named(run, depth),)
    line, hedged = _line(run, parts, missing)
    return one.seen("count", "missing", line, text, "each k once", numbers=numbers, hedged=hedged)


def _left_out(run: Run, products: Products, side: Side) -> Array:
    """bool [E, P]: elements of an operand that its load leaves out."""
    rows = run.sizes[0] if side is products.left else run.sizes[1]
    left_out: Array = side.asked & products.alive & ~side.live & (side.row >= 0) & (side.row < rows)
    return left_out


def _past_the_end(run: Run, products: Products, e: int) -> list[Observation]:
    """Products of what lies past K on both sides."""
    K, left, right = run.sizes[2], products.left, products.right
    past = products.live[e] & ((left.k[e] >= K) | (right.k[e] >= K))
    past &= (left.value[e] != 0) & (right.value[e] != 0)
    if not past.any():
        return []
    side = left if (left.k[e][past] >= K).any() else right
    p = int(np.flatnonzero(past)[0])
    text = f"elements of {side.operand.letter} past K = {K} (k = {span(side.k[e][past])}) are multiplied"
    end = right_end(run, products, past, e)
    line = line_of_operands_mask(run, products, side, p, side.live & (side.k >= K), end)
    return [products.seen("count", f"past {side.operand.letter}", line, text, "a mask that ends at K", p=p)]


def check_masks(run: Run, products: Products) -> list[Observation]:
    """Elements that a load leaves out, become something else than zero on the way, and meet something else than zero."""
    for side, other in ((products.right, products.left), (products.left, products.right)):
        counts = side.asked & ~side.live & products.alive & (side.value != 0) & (other.value != 0)
        if counts.any():
            e, p = (int(i) for i in np.argwhere(counts)[0])
            access, letter = load_of(run, side, p), side.operand.letter
            text = f"where the mask of {letter} is false, the operand holds {plain(side.value[e, p])} and is multiplied by "
            text += f"the {plain(other.value[e, p])} in {other.operand.letter}"
            line = access.line if access else None
            return [products.seen("mask", f"{letter} counts", line, text, "a 0 in one of the two operands", p=p)]
    return []
