"""Columns count and mask: is every k multiplied exactly once, and is what a mask leaves out 0 where it meets something?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.diagnosis.addresses import line_of_slice
from grader.diagnosis.definition import line_of_bound, loops_of
from grader.diagnosis.fit import named
from grader.diagnosis.observation import Number, Observation, plain, span
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, Side, load_of


def needed_of(run: Run, n: int) -> Array:
    """bool [K]: the k that a column of Y needs."""
    if run.expected.needed is None:
        return np.ones(run.sizes[2], dtype=bool)
    found: Array = run.expected.needed(run.problem)[n]
    return found


def check_counts(run: Run, parts: Sequence[Products]) -> list[Observation]:
    """How often each k is in the sum of an element of Y. parts: of the programs that share a tile, or of one alone."""
    one, e = parts[0], 0
    K, n = run.sizes[2], int(one.n[e])
    counts = np.zeros(K, dtype=np.int64)
    for part in parts:
        at = np.flatnonzero((part.m == one.m[e]) & (part.n == one.n[e]))
        if not len(at):
            return []
        counts += _times_met(part, int(at[0]), K)
    needed = needed_of(run, n)
    where = f"Y[{one.m[e]}, {n}]"
    missing, twice = np.flatnonzero(needed & (counts == 0)), np.flatnonzero(counts > 1)
    found = _past_the_end(run, one, e)
    if len(twice):
        times = sorted(set(counts[twice].tolist()))
        often = f"{times[0]} times" if len(times) == 1 else f"{times[0]} to {times[-1]} times"
        text = f"k = {span(twice)} is multiplied {often} for {where}{_together(parts)}"
        found.append(
            Observation("count", "twice", _line(run, parts, "start"), text, "each k once", program=one.program)
        )
    if len(missing):
        found.append(_missing(run, parts, e, missing, where))
    return found


def _times_met(products: Products, e: int, K: int) -> Array:
    """int [K]: how often both operands hold this k of the right rows."""
    left, right = products.left, products.right
    unit = right.operand.unit
    met = left.live[e] & right.live[e] & products.alive[e] & (left.k[e] // unit == right.k[e] // unit)
    met &= (left.k[e] >= 0) & (left.k[e] < K)
    return np.bincount(left.k[e][met], minlength=K)


def _together(parts: Sequence[Products]) -> str:
    """Of slices: what each of them covers."""
    if len(parts) == 1:
        return ""
    return ": " + ", ".join(
        f"program {part.program} multiplies k = {span(part.left.k[0][part.live[0]])}" for part in parts[:3]
    )


def _line(run: Run, parts: Sequence[Products], which: str) -> int | None:
    """Where the start, or the stop, of the loop over k was made; of slices without such a loop, their place along k."""
    terms = parts[0].flow.terms
    if not terms:
        return min(loops_of(run.text).values(), default=parts[0].store.line)
    inside = terms[0].line or 0
    line = line_of_bound(run.text, inside, which) or inside
    if len(parts) > 1 and line == loops_of(run.text).get(inside):
        return line_of_slice(run, parts[0])
    return line


def _missing(run: Run, parts: Sequence[Products], e: int, missing: Array, where: str) -> Observation:
    """Some k that no product has: left out by a mask, or never reached."""
    one = parts[0]
    for side in (one.left, one.right):
        unit = side.operand.unit
        asked = side.asked[e] & one.alive[e]
        masked = asked & ~side.live[e]
        if len(missing) and np.isin(missing // unit, side.k[e][masked] // unit).all():
            p = int(np.flatnonzero(masked & np.isin(side.k[e] // unit, missing // unit))[0])
            access = load_of(run, side, p)
            text = f"the mask of {side.operand.letter} leaves out k = {span(missing)}, and K = {run.sizes[2]}"
            return Observation(
                "count", f"masked {side.operand.letter}", access.line if access else None, text, "", program=one.program,
                iteration=int(one.iteration[p]),
            )  # fmt: skip
    made = int(one.iteration.max()) + 1 if one.iteration.size else 0
    depth = int((one.iteration == 0).sum())
    text = f"k = {span(missing)} is never multiplied for {where}{_together(parts)}"
    numbers: tuple[Number, ...] = ()
    if made and depth and len({term.line for term in one.flow.terms}) == 1:
        text += f": the loop runs {made} iteration{'s' if made != 1 else ''} of {{0}}"
        numbers = (named(run, depth),)
    return Observation(
        "count",
        "missing",
        _line(run, parts, "stop" if missing[0] else "start"),
        text,
        "each k once",
        numbers,
        program=one.program,
    )


def _past_the_end(run: Run, products: Products, e: int) -> list[Observation]:
    """Products of what lies past K on both sides."""
    K, left, right = run.sizes[2], products.left, products.right
    past = left.live[e] & right.live[e] & products.alive[e] & ((left.k[e] >= K) | (right.k[e] >= K))
    past &= (left.value[e] != 0) & (right.value[e] != 0)
    if not past.any():
        return []
    side = left if (left.k[e][past] >= K).any() else right
    p = int(np.flatnonzero(past)[0])
    access = load_of(run, side, p)
    text = f"k = {span(side.k[e][past])} of {side.operand.letter} is multiplied, past K = {K}"
    return [Observation("count", f"past {side.operand.letter}", access.line if access else None, text, "a mask that ends at K",
                        program=products.program, iteration=int(products.iteration[p]))]  # fmt: skip


def check_masks(run: Run, products: Products) -> list[Observation]:
    """Elements that a load leaves out, become something else than zero on the way, and meet elements that are there."""
    for side, other in ((products.right, products.left), (products.left, products.right)):
        counts = side.asked & ~side.live & other.live & products.alive & (side.value != 0) & (other.value != 0)
        if counts.any():
            return [_counted(run, products, side, other, counts)]
    return []


def _counted(run: Run, products: Products, side: Side, other: Side, counts: Array) -> Observation:
    e, p = (int(i) for i in np.argwhere(counts)[0])
    access = load_of(run, side, p)
    text = f"where its mask leaves {side.operand.letter} out, the operand holds {plain(side.value[e, p])} and is multiplied by "
    text += f"{other.operand.letter}[{other.row[e, p]}, {other.k[e, p]}] = {plain(other.value[e, p])}"
    return Observation("mask", f"{side.operand.letter} counts", access.line if access else None, text, "0 on one of the two sides",
                       program=products.program, iteration=int(products.iteration[p]))  # fmt: skip
