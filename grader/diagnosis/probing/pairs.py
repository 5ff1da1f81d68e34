"""Which X met which W? Read off outputs of launches whose X has one entry a row: each output is one product, or should be.

The same places of X are hot in every run, with other numbers in X and W each time; a product is named only where one
pair of elements gives the output in every run, and no other pair does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.diagnosis.probing.reading import Reading
from grader.labs.imitation import TILES

Array = np.ndarray[Any, Any]

TOLERANCE = 2.0**-10
"""Of a value: one rounding to fp16 on the way, and one at the end."""
READ = 40
"""How many wrong outputs are read."""
FEWEST = 3
"""So many of them have to agree before a rule is named."""


@dataclass(frozen=True, eq=False)
class Runs:
    """R launches with the same hot places. y: float64 [R, M, N]; x: [R, M], the hot entries; w: [R, N, K]; k: [M]."""

    y: Array
    x: Array
    w: Array
    k: Array

    @property
    def right(self) -> Array:
        """float64 [R, M, N]: the one product that each output should be."""
        return self.x[:, :, None] * self.w[:, :, self.k].transpose(0, 2, 1)

    @property
    def wrong(self) -> Array:
        """bool [M, N]: outputs that are no such product in some run."""
        return np.asarray((~_alike(self.y, self.right)).any(axis=0))


@dataclass(frozen=True)
class Taken:
    """What output (m, n) holds: X[row, k[row]] times W[column, depth]."""

    m: int
    n: int
    row: int
    column: int
    depth: int


def read(runs: Runs) -> Reading | None:
    """The first thing that is certain about the outputs that are wrong; None where nothing is."""
    chosen = spread(np.argwhere(runs.wrong))
    if not chosen:
        return None
    for look in (_nothing, _factor, _factors, _counted, _pairs, _besides):
        if (found := look(runs, chosen)) is not None:
            return found
    return None


def _alike(y: Array, expected: Array) -> Array:
    with np.errstate(invalid="ignore"):
        found: Array = np.abs(y - expected) <= TOLERANCE * np.abs(expected)
    return found


def spread(places: Array) -> list[tuple[int, int]]:
    """At most READ of the places, the first and last among them."""
    at = np.unique(np.linspace(0, len(places) - 1, min(READ, len(places))).astype(int)) if len(places) else np.zeros(0, int)
    return [(int(places[i][0]), int(places[i][1])) for i in at]


def _product(runs: Runs, m: int, n: int) -> str:
    return f"X[{m}, {runs.k[m]}] x W[{n}, {runs.k[m]}]"


def _nothing(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """Outputs that are zero in every run although their product is none."""
    gone = (runs.y == 0).all(axis=0) & (runs.right != 0).all(axis=0)
    if (gone != runs.wrong).any() or len(chosen) < FEWEST:  # what is missing here may have gone to another wrong output
        return None
    return _left_out(runs, gone, *chosen[0])


def _left_out(runs: Runs, gone: Array, m: int, n: int) -> Reading:
    """Whether it is the last k, the first, or others."""
    kept = (~runs.wrong & (runs.right != 0).any(axis=0)).any(axis=1)
    lost, met = np.unique(runs.k[gone.any(axis=1)]), np.unique(runs.k[kept])
    words = f"{_product(runs, m, n)} never reaches Y[{m}, {n}]: it is zero"
    if len(met) and len(lost) and lost.min() > met.max() and not gone.all():
        return Reading(
            "products_left_out", f"{words}; so it is for k from {lost.min()} on, while products up to k = {met.max()} arrive",
            "products with the last k never reach Y",
        )  # fmt: skip
    if len(met) and len(lost) and lost.max() < met.min():
        return Reading(
            "products_left_out", f"{words}; so it is up to k = {lost.max()}, while products from k = {met.min()} on arrive",
            "products with the first k never reach Y",
        )  # fmt: skip
    return Reading("products_left_out", words, "some elements of Y are zero where a product belongs")


def _factor(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """Outputs that are one number times their product, the same in every run."""
    y = np.array([runs.y[:, m, n] for m, n in chosen])
    right = np.array([runs.right[:, m, n] for m, n in chosen])
    if not np.isfinite(y).all() or (right == 0).any() or len(chosen) < FEWEST:
        return None
    factor = float(np.median(y / right))
    if factor == 0 or not _alike(y, factor * right).all():
        return None
    m, n = chosen[0]
    words = f"Y[{m}, {n}] is {factor:.4g} x ({_product(runs, m, n)})"
    return Reading("counted_several_times", f"{words}, and so are all {len(chosen)} wrong outputs that were read",
                   f"products count {factor:.4g} times")  # fmt: skip


def _factors(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """Outputs that are their product times a number that depends on k alone."""
    by_k: dict[int, set[float]] = {}
    for m, n in chosen:
        y, right = runs.y[:, m, n], runs.right[:, m, n]
        if not np.isfinite(y).all() or (right == 0).any():
            return None
        factor = float(np.median(y / right))
        if factor == 0 or not _alike(y, factor * right).all():
            return None
        by_k.setdefault(int(runs.k[m]), set()).add(round(factor, 2))
    if len(chosen) < FEWEST or len(by_k) < 2 or any(len(found) > 1 for found in by_k.values()):
        return None
    first: dict[float, int] = {}
    for k in sorted(by_k):
        first.setdefault(min(by_k[k]), k)
    listed = ", ".join(f"{factor:.4g} times for k = {k}" for factor, k in list(first.items())[:4])
    return Reading("counted_several_times", f"each product should count once, and counts {listed}{', ...' if len(first) > 4 else ''}",
                   "products count several times, depending on k")  # fmt: skip


def _counted(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """A weight that counts as another number, the same wherever it stands: for formats of few values."""
    values = np.unique(runs.w)
    if len(values) > 16:
        return None
    held = runs.y / runs.x[:, :, None]
    own = runs.w[:, :, runs.k].transpose(0, 2, 1)
    table = {}
    for value in values[values != 0]:
        seen = held[own == value]
        if len(seen) < FEWEST or not np.isfinite(seen).all():
            return None
        middle = float(np.median(seen))
        if not (np.abs(seen - middle) <= TOLERANCE * max(abs(middle), 1.0)).all():
            return None
        table[float(value)] = middle
    other = [(value, counts) for value, counts in table.items() if abs(value - counts) > TOLERANCE * abs(value)]
    if not other:
        return None
    listed = ", ".join(f"{value:.4g} counts as {counts:.4g}" for value, counts in other[:4])
    return Reading("weight_counted_otherwise", f"a weight of {listed}{', ...' if len(other) > 4 else ''}, in every place",
                   "some values of the weight count as others")  # fmt: skip


def _pairs(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """Outputs that are the product of another pair."""
    taken = [found for m, n in chosen if (found := _found(runs, m, n, runs.y[:, m, n])) is not None]
    return _told(runs, taken, len(chosen), "took", "wrong_pair") if taken else None


def _besides(runs: Runs, chosen: Sequence[tuple[int, int]]) -> Reading | None:
    """Outputs that hold their product and one more."""
    taken = []
    for m, n in chosen:
        rest = runs.y[:, m, n] - runs.right[:, m, n]
        if np.isfinite(rest).all() and (np.abs(rest) > 4 * TOLERANCE * np.abs(runs.y[:, m, n])).all():
            slack = TOLERANCE * np.abs(runs.y[:, m, n])
            if (found := _found(runs, m, n, rest, slack)) is not None:
                taken.append(found)
    return _told(runs, taken, len(chosen), "holds, besides its own product,", "product_besides") if taken else None


def _found(runs: Runs, m: int, n: int, y: Array, slack: Array | None = None) -> Taken | None:
    """The one pair whose product is y in every run; None where there is none, or several."""
    if not np.isfinite(y).all() or not y.any():
        return None
    found: list[tuple[int, int, int]] = []
    for row in (m, *(row for row in range(len(runs.k)) if row != m)):
        for column, depth in _weights(runs, row, y, slack):
            found.append((row, column, depth))
            if len(found) > 1:
                return None
        if row == m and found:
            break
    return Taken(m, n, *found[0]) if found else None


def _weights(runs: Runs, row: int, y: Array, slack: Array | None) -> Iterator[tuple[int, int]]:
    """Elements of W that make y of the hot entry of a row, in every run."""
    _, N, K = runs.w.shape
    left = np.arange(N * K)
    for run in range(len(y)):
        product = runs.x[run, row] * runs.w[run].reshape(-1)[left]
        room = TOLERANCE * abs(y[run]) if slack is None else slack[run]
        left = left[np.abs(product - y[run]) <= room]
        if not len(left):
            return
    for at in left:
        yield int(at // K), int(at % K)


def _told(runs: Runs, taken: Sequence[Taken], asked: int, verb: str, name: str) -> Reading | None:
    """The first pair, and the rule that all that were read follow. Where few could be read, nothing is said."""
    if len(taken) < FEWEST or 2 * len(taken) < asked:
        return None
    one = taken[0]
    words = f"Y[{one.m}, {one.n}] {verb} X[{one.row}, {runs.k[one.row]}] x W[{one.column}, {one.depth}]"
    rule = _rule(runs, taken)
    expected = f", expected {_product(runs, one.m, one.n)}" if verb == "took" else ""
    return Reading(name, f"{words}{expected}{f': {rule}' if rule else ''}",
                   rule or "products are made of elements that do not belong together")  # fmt: skip


def _rule(runs: Runs, taken: Sequence[Taken]) -> str:
    """What all the pairs have in common, in words without numbers of places; "" for nothing."""
    own = np.array([[one.m, one.n, runs.k[one.m]] for one in taken])
    got = np.array([[one.row, one.column, one.depth] for one in taken])
    if (got[:, 0] == own[:, 1]).all() and (got[:, 1] == own[:, 0]).all():
        return "rows and columns of Y are exchanged"
    found = []
    axes: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("token", lambda by: f"the row of X is {_by(by)}"),
        ("column", lambda by: f"the row of W (its output column) is {_by(by)}"),
        ("k", lambda by: f"the k of W is {_by(by)}"),
    )
    for axis, (noun, moved) in enumerate(axes):
        if (got[:, axis] == own[:, axis]).all():
            continue
        shift = got[:, axis] - own[:, axis]
        if len(set(shift.tolist())) == 1 and len(taken) > 1:
            found.append(moved(int(shift[0])))
        elif len(set(got[:, axis].tolist())) == 1 and len(set(own[:, axis].tolist())) > 1:
            found.append(f"{noun} {got[0, axis]} is taken for every {noun}")
        elif tile := next((tile for tile in TILES if (got[:, axis] == own[:, axis] % tile).all()), None):
            which = ("rows of X", "rows of W", "k of W")[axis]
            found.append(f"the first {tile} {which} are used again and again")
        else:
            return ""
    return " and ".join(found)


def _by(shift: int) -> str:
    return f"{abs(shift)} too {'high' if shift > 0 else 'low'}"
