"""walk: a program that made something wrong, iteration by iteration, as a page shows it: what it multiplies, what is summed up so far."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from grader.diagnosis.observation import plain, span
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, Side, products_of
from grader.diagnosis.stores import by_address, lasting, places_in_output, stores_to_output
from grader.diagnosis.sums import dropped
from grader.model import Runs, Walk, WalkStep, WalkTile, place_in
from grader.traffic.counting import runs_of

MAX_STEPS = 64
MAX_TILES = 256
PAIRS = 3
"""Products of an iteration that are shown with their numbers."""


def walk(case: str, run: Run, program: int | None) -> Walk | None:
    """The walk of this program, or of the first recorded one that stores something wrong; None where none can be followed."""
    for number in sorted(run.tape.programs, key=lambda one: one != program):
        stores = stores_to_output(run, number)
        for store in lasting(stores):
            m, n, inside = places_in_output(run, store)
            wrong = np.zeros_like(inside)
            wrong[inside] = run.wrong[m[inside], n[inside]]
            if wrong.any():
                edge = inside & ((m == m[inside].min()) | (n == n[inside].min()))
                lanes = np.concatenate((np.flatnonzero(wrong)[:1], np.flatnonzero(edge)))
                # a stranger's record: what trips it costs a picture
                with contextlib.suppress(Exception), np.errstate(all="ignore"):
                    lost = dropped(run, products_of(run, number, store, lanes), stores)
                    return _walk(
                        case, run, products_of(run, number, store, lanes, lost=lost), {one.number for one in lost}
                    )
    return None


def _walk(case: str, run: Run, products: Products, lost: set[int]) -> Walk:
    """The first of the products' elements of Y is the one whose sum is followed; the others are an edge of the tile, for all rows and k."""
    steps, sides, so_far = [], (products.left, products.right), 0.0
    shares = np.where(products.alive, products.factor * products.left.value * products.right.value, 0.0)[0]
    counted = np.array([products.flow.terms[term].node not in lost for term in products.term.tolist()])
    for number in np.unique(products.iteration)[:MAX_STEPS].tolist():
        mine = products.iteration == number
        so_far += (added := float(shares[mine & counted].sum()))
        (left, read), (right, met) = (_part(run, side, mine) for side in sides)
        pairs = zip(*(side.value[0, mine][:PAIRS] for side in sides), strict=True)
        made = " + ".join(f"{plain(x)} * {plain(w)}" for x, w in pairs) + (" + ..." if mine.sum() > PAIRS else "")
        factors = np.unique(products.factor[0, mine])
        made = f"({made}) * {plain(factors[0])}" if len(factors) == 1 and factors[0] != 1 else made
        what = (
            f"{made} = {plain(added)}, so far {plain(so_far)}"
            if counted[mine].any()
            else f"nothing: {made} reaches no store"
        )
        steps.append(WalkStep(left, right, f"{read} meets {met}. To {products.element(0)} it adds {what}."))
    at = int(products.m[0]), int(products.n[0])
    return Walk(case, place_in(run.grid, products.program), run.sizes, at, tuple(_tiles(run)), tuple(steps))


def _part(run: Run, side: Side, mine: Array) -> tuple[tuple[Runs, Runs], str]:
    """Rows and k of the operand's elements that are multiplied in an iteration, as far as it has them; and these in words."""
    operand, live = side.operand, side.live[:, mine]
    sizes = run.sizes[0 if operand is run.expected.left else 1], run.sizes[2]
    words = np.unique(side.k[:, mine][live])
    found = np.unique(side.row[:, mine][live]), np.unique(words[:, None] + np.arange(operand.unit))
    rows, k = (runs_of(np.isin(np.arange(size), one)) for size, one in zip(sizes, found, strict=True))
    packed = f" (words {span(words // operand.unit)})" if operand.unit > 1 else ""
    return (rows, k), f"{operand.letter}[{span(found[0])}, {span(found[1])}]{packed}"


def _tiles(run: Run) -> Iterator[WalkTile]:
    """What each program stores to Y: from the first to the last element that it touches."""
    M, N, _ = run.sizes
    for store in run.stores[:MAX_TILES]:
        (top, bottom), (left, right) = (
            sorted(int(place) for place in places)
            for places in by_address(np.array([store.lowest, store.highest]), run.strides)
        )
        if 0 <= top <= bottom < M and 0 <= left <= right < N:
            wrong = np.argwhere(run.wrong[top : bottom + 1, left : right + 1])
            said = ""
            if len(wrong):
                m, n = int(wrong[0, 0]) + top, int(wrong[0, 1]) + left
                said = (
                    f"{len(wrong)} wrong, first Y[{m}, {n}] = {plain(run.y[m, n])}, expected {plain(run.right[m, n])}"
                )
            yield WalkTile(place_in(run.grid, store.program), (top, bottom + 1), (left, right + 1), said)
