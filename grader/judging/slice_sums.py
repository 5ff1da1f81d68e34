"""How many slices of K a launch added in fp16, by what each of them adds: what SPLIT_K may widen the tolerance by.

In correct split-K a slice has a set of k that no other slice of its tile has, and adds the products of these k, summed in fp32 and
rounded to fp16 once. So what each slice adds is compared with the reference of the same problem with X zeroed for every other k, under
the tolerance of one rounding. If all slices fit, further errors of Y come from the additions alone, and every slice counts. If one does
not, the launch gets the tolerance of one slice: tiny additions, a sum that is added in sixteenths, slices that cancel, and an fp16 sum
of many steps inside a slice do not widen it. A slice that adds only zeros rounds nothing, and does not count.

A slice's loads of X tell which k it has (interpreter/split_k.py). A k that several slices of a tile load belongs to the one that loads
it earliest among its own, since a kernel that prefetches or reads past its end does that last, or, if its loop runs backwards, first; if
that does not fit, the slice may have none of these k, or all of them. If nothing of that fits, as where X is loaded for one slice and kept
for another, the k are those whose products come nearest to what was added, by least squares: to what the slice adds, and to what all
slices add that come in the same place among those of their tiles, since a tile may have too few elements to tell. Whatever fits is a sum
of products rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from grader.labs import Lab, Launchable
from grader.labs.tolerance import FP16_UNDERFLOW, U_FP16
from grader.model import Outcome, Problem, Reference

FACTOR = ("M", "K")
MOST_SETS, MOST_SOLVED, MOST_PARTS = 320, 32, 8192
"""Different sets of k that are compared with the reference, those of them that are found by what was added, and slices that are compared
with these: a judge is not kept busy by what a kernel adds. 16 slices are all that count."""
MOST_ELEMENTS, MOST_UNKNOWN, ROOM = 4096, 1200, 1.5
WIDTHS = (1, 8, 16, 32, 64)
"""Neighbouring k that go together, where a slice adds too few elements to tell each k: fewer than ROOM times as many."""

NOT_ITS_SHARE = (
    "its slices of K do not widen the tolerance, because one adds something other than the products of its own k, "
    "summed in fp32 and rounded to fp16 once"
)
NOT_FOLLOWED = (
    "its slices of K do not widen the tolerance, because nobody could follow what each adds: they are more than the grader keeps, "
    "are not added as fp16, or are added to what was stored"
)
UNKNOWN_SHARE = (
    "its slices of K do not widen the tolerance, because the grader cannot tell which k each of them adds; "
    "load no more of X in a slice than its own k"
)
UNEVEN = (
    "SPLIT_K widens the tolerance by as many slices of K as most elements of Y get, and some elements get more; "
    "cut every tile into the same number of slices"
)

MORE_THAN_SAID = (
    "it adds {made} slices of K, and SPLIT_K = {said} of the config widens the tolerance by no more than {said}"
)
TOO_MANY = (
    "with K = {K}, SPLIT_K widens the tolerance by no more slices than {most}: one for each 16 k, and 16 in all; "
    "let the other slices add nothing"
)


@dataclass(frozen=True)
class Added:
    """slices: how many are added to most elements; 1 if one of them does not add its share, 0 if none is added.

    fault: why they widen the tolerance by less than the config says; "" if they do not."""

    slices: int
    fault: str = ""


def factor(kernel: Launchable) -> str | None:
    """The parameter whose columns are K, as it stands in the contract; None where there is none."""
    return next((parameter.name for parameter in kernel.parameters if parameter.sizes == FACTOR), None)


def added(lab: Lab, problem: Problem, outcome: Outcome) -> Added | None:
    """The slices that a watched launch added; None if the launch was not followed, or was recorded instead. Raises ValueError for an
    invalid record."""
    name = factor(lab)
    if outcome.additions == 0:
        return Added(0)
    if name is None or outcome.additions is None:
        return None
    if not outcome.contributions:
        return None if outcome.flow else Added(1, NOT_FOLLOWED)
    record, products = _parsed(outcome.contributions, problem), _Products(lab, problem, name)
    whole = np.zeros(problem.scalars["M"] * problem.scalars["N"], dtype=np.int64)
    try:
        for masks, own in _slices(record):
            if not any(_fits(products.of(mask), record.place[own], record.value[own]) for mask in masks) and not all(
                any(products.fit_some(record, part, by) for by in (part, alike)) for part, alike in _parts(record, own)
            ):
                return Added(1, UNKNOWN_SHARE if products.coarse else NOT_ITS_SHARE)
            whole += np.bincount(record.place[own][record.value[own] != 0], minlength=whole.size)
    except _TooMuch:
        return Added(1, NOT_FOLLOWED)
    counts = np.sort(whole[whole > 0])
    if not len(counts):
        return Added(0)
    most = int(counts[(len(counts) - 1) // 2])
    return Added(most, UNEVEN if counts[-1] > most else "")


@dataclass(frozen=True)
class _Record:
    """ranks: int [slices, K]; of each addition its slice, the element of Y and the value, as arrays."""

    ranks: np.ndarray
    slice_of: np.ndarray
    place: np.ndarray
    value: np.ndarray


def _parsed(data: bytes, problem: Problem) -> _Record:
    """A record as the sandbox wrote it. Raises ValueError."""
    if len(data) < 24:
        raise ValueError("a record of additions without its sizes")
    slices, additions, K = (int(size) for size in np.frombuffer(data, np.int64, 3))
    if problem.scalars["K"] != K or min(slices, additions) < 0 or len(data) != 24 + 2 * slices * K + 10 * additions:
        raise ValueError("a record of additions whose sizes do not fit")
    ends = np.cumsum([24, 2 * slices * K, 4 * additions, 4 * additions, 2 * additions])
    parts = [data[start:end] for start, end in pairwise(ends)]
    ranks, slice_of, place, value = (
        np.frombuffer(part, kind) for part, kind in zip(parts, (np.uint16, np.int32, np.int32, np.float16), strict=True)
    )
    for numbers, limit in ((slice_of, slices), (place, problem.scalars["M"] * problem.scalars["N"])):
        if additions and not (numbers.min() >= 0 and numbers.max() < limit):
            raise ValueError("a record of additions to elements or by slices that are none")
    return _Record(ranks.reshape(slices, K).astype(np.int64), slice_of, place, value)


def _slices(record: _Record) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """Each different set of k, as bool [K] in the ways in which it may be meant, and where the additions are by the slices that have it.

    Those that add zeros are left out.
    """
    adding = np.zeros(len(record.ranks), dtype=bool)
    adding[record.slice_of[record.value != 0]] = True
    loaded = record.ranks > 0
    backwards = replace(record, ranks=np.where(loaded, record.ranks.max(axis=1, keepdims=True) + 1 - record.ranks, 0))
    tiles = _tiles(record, adding)
    every_way = _earliest(record, tiles), _earliest(backwards, tiles), _alone(record, tiles), loaded
    sets: dict[tuple[bytes, ...], int] = {}
    set_of = np.full(len(adding), -1, dtype=np.int64)
    for number in np.flatnonzero(adding).tolist():
        set_of[number] = sets.setdefault(tuple(way[number].tobytes() for way in every_way), len(sets))
    of_addition = set_of[record.slice_of]
    order = np.argsort(of_addition, kind="stable")
    ends = np.searchsorted(of_addition[order], np.arange(len(sets) + 1))
    for one, (begin, end) in zip(sets, pairwise(ends.tolist()), strict=True):
        ways = [np.frombuffer(way, dtype=bool) for way in dict.fromkeys(one)]
        yield [way for way in ways if way.any()], np.sort(order[begin:end])


def _tiles(record: _Record, adding: np.ndarray) -> list[list[int]]:
    """The slices of each tile, which begin and end at the same elements of Y."""
    count, kind = len(record.ranks), record.place.dtype  # one type: `at` takes twenty times as long between two
    first, last = np.full(count, np.iinfo(kind).max, kind), np.full(count, -1, kind)
    np.minimum.at(first, record.slice_of, record.place)
    np.maximum.at(last, record.slice_of, record.place)
    tiles: dict[tuple[int, int], list[int]] = {}
    for number in np.flatnonzero(adding):
        tiles.setdefault((int(first[number]), int(last[number])), []).append(int(number))
    return list(tiles.values())


def _earliest(record: _Record, tiles: Sequence[Sequence[int]]) -> np.ndarray:
    """bool [slices, K]: each k with the slice of its tile that loaded it earliest among its own."""
    own = record.ranks > 0
    never = np.where(own, record.ranks, np.iinfo(np.int64).max)
    for members in tiles:
        own[members] &= np.arange(len(members))[:, None] == never[members].argmin(axis=0)
    return own


def _alone(record: _Record, tiles: Sequence[Sequence[int]]) -> np.ndarray:
    """bool [slices, K]: each k that no other slice of the tile loaded."""
    own = record.ranks > 0
    for members in tiles:
        own[members] &= own[members].sum(axis=0) == 1
    return own


def _parts(record: _Record, own: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of some additions, where those of each slice are; and those of all slices that come in the same place among the slices of a tile,
    since these have the same k, if a kernel cuts every tile alike: together they tell it, where a tile has few elements."""
    own = own[np.argsort(record.slice_of[own], kind="stable")]
    adding = np.zeros(len(record.ranks), dtype=bool)
    adding[record.slice_of[own]] = True
    place_of = np.zeros(len(adding), dtype=np.int64)
    for members in _tiles(record, adding):
        place_of[members] = np.arange(len(members))
    places = place_of[record.slice_of[own]]
    alike = {place: own[places == place] for place in range(min(16, 1 + int(places.max(initial=0))))}
    for part in np.split(own, np.flatnonzero(np.diff(record.slice_of[own])) + 1):
        yield part, alike.get(int(place_of[record.slice_of[part[0]]]), part)


class _TooMuch(Exception):
    """There is more to compare than a judge is given time for."""


class _Products:
    """Sums of the products of some k, which additions are compared with, under the tolerance of one rounding."""

    def __init__(self, lab: Lab, problem: Problem, name: str) -> None:
        self.lab, self.problem, self.name = lab, problem, name
        self.whole: Reference | None = None
        self.solved: list[Reference] = []
        self.sets = self.parts = 0
        self.coarse = False
        """Whether k were sought that additions are too few to tell one by one."""

    def fit_some(self, record: _Record, part: np.ndarray, by: np.ndarray) -> bool:
        """Whether a part of the additions is that of any k, which some of them tell."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise _TooMuch
        places, values = record.place[part], record.value[part]
        if not np.isfinite(values).all():
            return False
        for number, one in enumerate(self.solved):
            if _fits(one, places, values):
                self.solved.insert(0, self.solved.pop(number))  # the next one is often of the same k
                return True
        by = by[np.isfinite(record.value[by])]  # other tiles' additions, of which this one's are finite
        mask = self._nearest(record.place[by], record.value[by]) if len(self.solved) < MOST_SOLVED else None
        if mask is None:
            return False
        self.solved.insert(0, self.of(mask))
        return _fits(self.solved[0], places, values)

    def of(self, mask: np.ndarray) -> Reference:
        """The reference with X zero but for these k, bool [K]."""
        self.sets += 1
        if self.sets > MOST_SETS:
            raise _TooMuch
        x = self.problem.tensors[self.name]
        alone = torch.where(torch.from_numpy(mask.copy()), x, torch.zeros((), dtype=x.dtype))
        return self.lab.reference(replace(self.problem, tensors={**self.problem.tensors, self.name: alone}), 1)

    def _nearest(self, places: np.ndarray, values: np.ndarray) -> np.ndarray | None:
        """bool [K], by least squares; None where there are too few elements."""
        whole = self.whole = self.whole or self.lab.reference(self.problem, 1)
        if whole.left is None or whole.right is None:
            return None
        K, some = whole.left.shape[1], np.unique(np.linspace(0, len(places) - 1, MOST_ELEMENTS).astype(np.int64))
        width = next((one for one in WIDTHS if -(-K // one) <= min(len(some) / ROOM, MOST_UNKNOWN)), None)
        self.coarse = self.coarse or width != 1
        if width is None:
            return None
        m, n = (torch.from_numpy(one) for one in np.divmod(places[some].astype(np.int64), whole.right.shape[0]))
        added = torch.from_numpy(values[some].astype(np.float64))
        each = [
            torch.nn.functional.pad(whole.left[rows] * whole.right[columns], (0, -K % width))
            .unflatten(1, (-1, width))
            .sum(2)
            for rows, columns in zip(m.split(256), n.split(256), strict=True)
        ]
        weight = 1 / (U_FP16 * added.abs() + FP16_UNDERFLOW)
        found = torch.linalg.lstsq(
            torch.cat(each) * weight[:, None], (added * weight)[:, None], driver="gelsy"
        ).solution
        mask: np.ndarray = (found[:, 0] > 0.5).repeat_interleave(width)[:K].numpy()
        return mask


def _fits(reference: Reference, places: np.ndarray, values: np.ndarray) -> bool:
    """Whether values added to elements of Y are those of the reference, each element once.

    All together they are no farther off than one rounding is on average, u16^2 / 3 at most (more if few are large), and what else the
    whole Y may be off by: what the lab permits may lie in these elements.
    """
    if len(places) and np.bincount(places).max() > 1:
        return False
    at = torch.from_numpy(places.astype(np.int64))
    y, bound = reference.y.reshape(-1)[at], reference.bound.reshape(-1)[at]
    error = (torch.from_numpy(values.astype(np.float64)) - y).abs()
    else_off = (reference.frobenius**2 - U_FP16**2) * float(reference.y.square().sum())
    square, fourth = float(y.square().sum()), float(y.square().square().sum())
    rounded = U_FP16**2 * (square / 3 + fourth**0.5)
    together = not bool(reference.y.any()) or float(error.square().sum()) <= else_off + rounded
    return together and bool((error <= bound).all())
