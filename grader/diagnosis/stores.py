"""What a program stores into Y: which stores last, and which elements of Y their lanes are."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.diagnosis.definition import address_nodes, behind, varies_along
from grader.diagnosis.provenance import Array, Untraceable
from grader.diagnosis.tape import Node

if TYPE_CHECKING:
    from grader.diagnosis.relation import Run


def stores_to_output(run: Run, program: int) -> list[Node]:
    """The program's recorded stores and atomics into Y."""
    return [n for n in run.tape.accesses[program] if n.op != "load" and n.tensor == run.lab.output]


def recorded_stores(run: Run) -> list[tuple[int, Node]]:
    """Those of all programs, each with its program."""
    return [(program, store) for program in run.tape.programs for store in stores_to_output(run, program)]


def first_store(run: Run) -> Node | None:
    """The first recorded one of any program."""
    return next((store for _, store in recorded_stores(run)), None)


def lasting(stores: Sequence[Node]) -> list[Node]:
    """Those whose elements the program does not overwrite later, and atomics."""
    found: list[Node] = []
    later: set[int] = set()
    for store in reversed(stores):
        offsets = store.offsets[store.active].tolist()
        if store.op != "store" or later.isdisjoint(offsets[:64]):
            found.append(store)
        if store.op == "store":
            later.update(offsets)
    return found[::-1]


def holding_wrong(run: Run) -> tuple[int, ...]:
    """The programs that store within a box of Y which holds a wrong element, recorded or not."""
    wide = max(run.strides)
    rows, columns = np.divmod(np.argwhere(run.wrong) @ np.array(run.strides), wide)
    found: dict[int, None] = {}
    for one in run.stores:
        (top, left), (bottom, right) = divmod(one.lowest, wide), divmod(one.highest, wide)
        held = (top <= rows) & (rows <= bottom) & (left <= columns) & (columns <= right)
        if held.any():
            found[one.program] = None
    return tuple(found)


def read_back(run: Run, program: int, stores: Sequence[Node]) -> bool:
    """Whether the program loads elements of Y that it stored itself before."""
    both = itertools.product(stores, run.loads(program, run.lab.output))
    own = (
        (store.offsets[store.active], load.offsets[load.active]) for store, load in both if store.number < load.number
    )
    return any(np.isin(stored[:64], loaded).any() for stored, loaded in own)


def places_in_output(run: Run, store: Node) -> tuple[Array, Array, Array]:
    """m, n (flat, for each lane) and whether the lane is active and lies in Y."""
    M, N, _ = run.sizes
    m, n = _regular_places(run, store) or by_address(store.offsets.reshape(-1), run.strides)
    return m, n, (m >= 0) & (m < M) & (n >= 0) & (n < N) & store.active.reshape(-1)


def by_address(offsets: Array, strides: tuple[int, int]) -> tuple[Array, Array]:
    """m and n as memory has them: as many steps of the larger stride as there are, then of the other."""
    wide = 0 if strides[0] >= strides[1] else 1
    first, rest = np.divmod(offsets, strides[wide])
    other = rest // strides[1 - wide]
    return (other, first) if wide else (first, other)


def _regular_places(run: Run, store: Node) -> tuple[Array, Array] | None:
    """m and n by steps from the store's corner, which tells the column after a row's last from the next row's first."""
    axes = store_axes(store, run.strides)
    if axes is None:
        return None
    start: Sequence[Any] = by_address(store.offsets.reshape(-1)[0], run.strides)
    with contextlib.suppress(Untraceable):
        start = _meant(run, store, axes) or start
    numbers = np.indices(store.shape)
    m, n = (first + (0 if axis is None else numbers[axis]) for first, axis in zip(start, axes, strict=True))
    return np.broadcast_to(m, store.shape).reshape(-1), np.broadcast_to(n, store.shape).reshape(-1)


def _meant(run: Run, store: Node, axes: tuple[int | None, int | None]) -> list[int] | None:
    """Row and column of the corner of a store whose addresses are a part along rows plus one along columns, which tells a column beyond N
    from one of the next row; None of others, and where the part along columns is made with the stride of rows."""
    nodes, begins, values = address_nodes(run, store)[::-1], [], run.provenance.values
    for axis, stride in zip(axes, run.strides, strict=True):
        part = next((node for node in nodes if varies_along(run, node, store.shape) == {axis}), None)
        if part is None:
            return None
        begins.append(int(values(part.number).reshape(-1)[0]))
        factors = (i for node in behind(run, part.number) if node.op == "mul" for i in node.inputs)
        if stride < max(run.strides) and any((values(i) == max(run.strides)).all() for i in factors):
            return None
    whole = sum(begins) == int(store.offsets.reshape(-1)[0]) and not any(np.mod(begins, run.strides))
    return [begin // stride for begin, stride in zip(begins, run.strides, strict=True)] if whole else None


def store_axes(store: Node, strides: tuple[int, int]) -> tuple[int | None, int | None] | None:
    """The axes of a store along which m and n run; None where the addresses do not follow Y's strides."""
    axes: list[int | None] = [None, None]
    expected: Array = np.full(store.shape, store.offsets.reshape(-1)[0])
    for axis, length in enumerate(store.shape):
        if length == 1:
            continue
        step = int(np.diff(store.offsets, axis=axis).reshape(-1)[0])
        which = next((d for d in (1, 0) if strides[d] == step and axes[d] is None), None)
        if which is None:
            return None
        axes[which] = axis
        shape = [1] * store.offsets.ndim
        shape[axis] = length
        expected = expected + (np.arange(length) * step).reshape(shape)
    return (axes[0], axes[1]) if np.array_equal(expected, store.offsets) else None
