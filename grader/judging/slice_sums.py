"""How many slices of K a launch added in fp16, by what each of them adds: what SPLIT_K may widen the tolerance by.

In correct split-K a slice has a set of k that no other slice of its tile has, and adds the products of these k, summed in fp32 and
rounded to fp16 once. So what each slice adds is compared with the reference of the same problem with X zeroed for every other k, under
the tolerance of one rounding. If all slices fit, further errors of Y come from the additions alone, and every slice counts. If one does
not, the launch gets the tolerance of one slice: tiny additions, a sum that is added in sixteenths, slices that cancel, and an fp16 sum
inside a slice do not widen it. A slice that adds only zeros rounds nothing, and does not count.

A slice's loads of X tell which k it has (interpreter/split_k.py). A k that several slices of a tile load belongs to the one that loads
it earliest among its own, since a kernel that prefetches or reads past its end does that last; if that does not fit, the slice may have
none of these k, or all of them. Whatever fits is a sum of products rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from grader.labs import Lab
from grader.model import Outcome, Problem

FACTOR = ("M", "K")
MOST_SETS = 64
"""Different sets of k that are compared with the reference; 16 are all that count."""

NOT_ITS_SHARE = (
    "its slices of K do not widen the tolerance, because one adds something other than the products of its own k, "
    "summed in fp32 and rounded to fp16 once"
)
UNEVEN = (
    "SPLIT_K widens the tolerance by as many slices of K as most elements of Y get, and some elements get more; "
    "cut every tile into the same number of slices"
)


@dataclass(frozen=True)
class Added:
    """slices: how many are added to most elements; 1 if one of them does not add its share, 0 if none is added.

    fault: why they widen the tolerance by less than the config says; "" if they do not."""

    slices: int
    fault: str = ""


def factor(kernel: object) -> str | None:
    """The parameter whose columns are K, as it stands in the contract; None where there is none."""
    parameters = getattr(kernel, "parameters", ())
    return next((parameter.name for parameter in parameters if parameter.sizes == FACTOR), None)


def added(lab: Lab, problem: Problem, outcome: Outcome) -> Added | None:
    """The slices that a watched launch added; None if the launch was not followed, or was recorded instead. Raises ValueError for an
    invalid record."""
    name = factor(lab)
    if outcome.additions == 0:
        return Added(0)
    if name is None or outcome.additions is None:
        return None
    if not outcome.contributions:
        return None if outcome.flow else Added(1, NOT_ITS_SHARE)
    record = _parsed(outcome.contributions, problem)
    whole = np.zeros(problem.scalars["M"] * problem.scalars["N"], dtype=np.int64)
    for number, (masks, own) in enumerate(_slices(record)):
        if number == MOST_SETS or not any(_fits(lab, problem, name, mask, record, own) for mask in masks):
            return Added(1, NOT_ITS_SHARE)
        whole += np.bincount(record.place[own & (record.value != 0)], minlength=whole.size)
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
    """Each different set of k, as bool [K] in the ways in which it may be meant, and which additions are by the slices that have it.

    Those that add zeros alone are left out.
    """
    adding = np.zeros(len(record.ranks), dtype=bool)
    adding[record.slice_of[record.value != 0]] = True
    earliest, alone, loaded = _earliest(record, adding), _alone(record, adding), record.ranks > 0
    meant = [tuple(way[number].tobytes() for way in (earliest, alone, loaded)) for number in range(len(adding))]
    for one in dict.fromkeys(key for key, adds in zip(meant, adding, strict=True) if adds):
        ways = [np.frombuffer(way, dtype=bool) for way in dict.fromkeys(one)]
        same = np.array([key == one for key in meant]) & adding
        yield [way for way in ways if way.any()], same[record.slice_of]


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


def _earliest(record: _Record, adding: np.ndarray) -> np.ndarray:
    """bool [slices, K]: each k with the slice of its tile that loaded it earliest among its own."""
    own = record.ranks > 0
    never = np.where(own, record.ranks, np.iinfo(np.int64).max)
    for members in _tiles(record, adding):
        own[members] &= np.arange(len(members))[:, None] == never[members].argmin(axis=0)
    return own


def _alone(record: _Record, adding: np.ndarray) -> np.ndarray:
    """bool [slices, K]: each k that no other slice of the tile loaded."""
    own = record.ranks > 0
    for members in _tiles(record, adding):
        own[members] &= own[members].sum(axis=0) == 1
    return own


def _fits(lab: Lab, problem: Problem, name: str, mask: np.ndarray, record: _Record, own: np.ndarray) -> bool:
    """Whether what these slices add are the products of their k, rounded once."""
    places, values = record.place[own], record.value[own]
    if len(places) and np.bincount(places).max() > 1:
        return False
    x = problem.tensors[name]
    alone = torch.where(torch.from_numpy(mask.copy()), x, torch.zeros((), dtype=x.dtype))
    reference = lab.reference(replace(problem, tensors={**problem.tensors, name: alone}), 1)
    at = torch.from_numpy(places.astype(np.int64))
    y, bound = reference.y.reshape(-1)[at], reference.bound.reshape(-1)[at]
    error = (torch.from_numpy(values.astype(np.float64)) - y).abs()
    together = float(torch.linalg.norm(error)), float(torch.linalg.norm(y))
    return bool((error <= bound).all()) and (together[1] == 0 or together[0] <= reference.frobenius * together[1])
