"""From the accesses of a launch to numbers: bytes and re-reads of each tensor, tile and reads of each program.

A lane that is masked asks for nothing. Every other lane asks for its bytes, also where another lane of the same tile asks for
the same ones: that is what "requested" counts; "distinct" counts each byte once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from grader.model import Runs
from grader.traffic.accesses import Access


@dataclass(frozen=True)
class Region:
    """Elements of a tensor. runs: along each dimension, the indices that occur. elements: how many there are, each once."""

    runs: tuple[Runs, ...]
    elements: int

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """First index and end along each dimension."""
        return tuple((runs[0][0], runs[-1][1]) for runs in self.runs)


@dataclass(frozen=True, eq=False)
class TensorTraffic:
    """What a launch did to one tensor.

    sizes: the shape in the lab's words, such as ("K // 8", "N"). loaded, stored, added: bytes that all lanes of all
    loads, stores and atomics asked for. distinct_loaded, distinct_written: bytes of the elements that were loaded at
    all, or stored or added to. reads: int64 in the tensor's shape, how many lanes loaded each element.
    readers: the same, in how many programs.
    """

    name: str
    sizes: tuple[str, ...]
    shape: tuple[int, ...]
    element_bytes: int
    loaded: int
    stored: int
    added: int
    distinct_loaded: int
    distinct_written: int
    reads: np.ndarray[Any, Any]
    readers: np.ndarray[Any, Any]

    @property
    def total_bytes(self) -> int:
        """The tensor's size."""
        return math.prod(self.shape) * self.element_bytes

    @property
    def mean_reads(self) -> float:
        """How often an element is loaded, over those that are at all; 0.0 when none is."""
        return self.loaded / self.distinct_loaded if self.distinct_loaded else 0.0

    @property
    def mean_readers(self) -> float:
        """How many programs load an element, over those that any does; 0.0 when none does."""
        some = self.readers[self.readers > 0]
        return float(some.mean()) if some.size else 0.0

    @property
    def histogram(self) -> dict[int, int]:
        """How many elements are loaded 0, 1, 2, ... times, only numbers that occur."""
        times, elements = np.unique(self.reads, return_counts=True)
        return {int(time): int(count) for time, count in zip(times, elements, strict=True)}


@dataclass(frozen=True)
class ProgramTraffic:
    """One program. number: in the order in which a GPU starts them, axis 0 of the grid fastest. place: its program_ids.

    tile: what it stores or adds to of the output, None when nothing. reads: what it loads of each tensor.
    slice, slices: its number among the programs with the same tile, and how many those are; 0 and 1 without split-K.
    """

    number: int
    place: tuple[int, int, int]
    tile: Region | None
    reads: Mapping[str, Region]
    slice: int = 0
    slices: int = 1


Touched = dict[str, np.ndarray[Any, np.dtype[np.bool_]]]
"""Which elements of each tensor a program touches."""


@dataclass(frozen=True)
class TensorLayout:
    """Where a tensor's elements lie: name, shape in words and numbers, strides in elements, bytes an element."""

    name: str
    sizes: tuple[str, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    @property
    def extent(self) -> int:
        """Bytes from the first element to the end of the last."""
        last = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        return (1 + last) * self.element_bytes if math.prod(self.shape) else 0


def layout_of(name: str, sizes: Sequence[str], tensor: torch.Tensor) -> TensorLayout:
    """The layout of a problem's tensor."""
    return TensorLayout(name, tuple(sizes), tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size())


class ElementNumbers:
    """From byte offsets to elements of one tensor, numbered in the order of their indices."""

    def __init__(self, layout: TensorLayout) -> None:
        self.layout = layout
        self._number = np.full(max(1, layout.extent // layout.element_bytes), -1, dtype=np.int64)
        steps = tuple(stride * self._number.itemsize for stride in layout.strides)
        count = math.prod(layout.shape)
        np.lib.stride_tricks.as_strided(self._number, layout.shape, steps)[...] = np.arange(count).reshape(layout.shape)

    def of_byte(self, offset: int) -> int:
        """The number of the element at a byte offset; -1 for a gap."""
        return int(self._number[offset // self.layout.element_bytes])

    def elements(self, access: Access) -> np.ndarray[Any, Any]:
        """The number of each element that the active lanes touch, as far as there is one; more of a lane that is wider."""
        first = access.active.astype(np.int64) // self.layout.element_bytes
        each = max(1, access.width // self.layout.element_bytes)
        if each > 1:
            first = (first[:, None] + np.arange(each)).reshape(-1)
        numbers = self._number[first[first < len(self._number)]]
        return np.asarray(numbers[numbers >= 0])


def count_tensor(layout: TensorLayout, accesses: Sequence[Access]) -> TensorTraffic:
    """What a launch did to one tensor. accesses: those of that tensor."""
    places, count = ElementNumbers(layout), math.prod(layout.shape)
    readers, written = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    loaded = [np.zeros(0, dtype=np.int64)]
    asked: Counter[str] = Counter()
    seen = np.full(count, -1, dtype=np.int64)
    for access in accesses:
        numbers = places.elements(access)
        asked[access.kind] += access.active.size * access.width
        if access.kind == "load":
            loaded.append(numbers)
            new = np.unique(numbers[seen[numbers] != access.program])
            readers[new] += 1
            seen[new] = access.program
        else:
            written[numbers] = True
    reads = np.bincount(np.concatenate(loaded), minlength=count)
    width = layout.element_bytes
    return TensorTraffic(
        layout.name,
        layout.sizes,
        layout.shape,
        width,
        asked["load"],
        asked["store"],
        asked["atomic"],
        int((reads > 0).sum()) * width,
        int(written.sum()) * width,
        reads.reshape(layout.shape),
        readers.reshape(layout.shape),
    )


def count_programs(
    layouts: Mapping[str, TensorLayout], output: str, grid: tuple[int, int, int], accesses: Sequence[Access]
) -> tuple[ProgramTraffic, ...]:
    """What each program did, in the order of their numbers; programs that touched nothing are there, too."""
    places = {name: ElementNumbers(layout) for name, layout in layouts.items()}
    loads: dict[int, dict[str, list[np.ndarray[Any, Any]]]] = {}
    stores: dict[int, list[np.ndarray[Any, Any]]] = {}
    for access in accesses:
        numbers = places[access.tensor].elements(access)
        if access.kind == "load":
            loads.setdefault(access.program, {}).setdefault(access.tensor, []).append(numbers)
        elif access.tensor == output:
            stores.setdefault(access.program, []).append(numbers)
    found = []
    for number in range(math.prod(grid)):
        tile = region(layouts[output], stores[number]) if number in stores else None
        reads = {name: region(layouts[name], parts) for name, parts in loads.get(number, {}).items()}
        place = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        found.append(ProgramTraffic(number, place, tile, reads))
    return _sliced(found)


def _sliced(programs: Sequence[ProgramTraffic]) -> tuple[ProgramTraffic, ...]:
    """The programs, numbered among those that share their tile."""
    sharing = Counter(program.tile for program in programs if program.tile is not None)
    before: Counter[Region] = Counter()
    found = []
    for program in programs:
        if program.tile is None:
            found.append(program)
            continue
        found.append(replace(program, slice=before[program.tile], slices=sharing[program.tile]))
        before[program.tile] += 1
    return tuple(found)


def touched(layouts: Mapping[str, TensorLayout], programs: int, accesses: Sequence[Access]) -> list[Touched]:
    """Which elements of each tensor each program loads or stores."""
    places = {name: ElementNumbers(layout) for name, layout in layouts.items()}
    found = [{name: np.zeros(layout.shape, dtype=bool) for name, layout in layouts.items()} for _ in range(programs)]
    for access in accesses:
        found[access.program][access.tensor].reshape(-1)[places[access.tensor].elements(access)] = True
    return found


def region(layout: TensorLayout, parts: Sequence[np.ndarray[Any, Any]]) -> Region:
    """The region that holds these elements."""
    touched = np.zeros(math.prod(layout.shape), dtype=bool)
    for part in parts:
        touched[part] = True
    cube = touched.reshape(layout.shape)
    axes = range(cube.ndim)
    runs = tuple(runs_of(np.asarray(cube.any(axis=tuple(other for other in axes if other != axis)))) for axis in axes)
    return Region(runs, int(touched.sum()))


def runs_of(present: np.ndarray[Any, Any]) -> Runs:
    """The stretches of an axis that are marked, bool [size]."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], present.astype(np.int8), [0]))))
    return tuple((int(first), int(end)) for first, end in edges.reshape(-1, 2))
