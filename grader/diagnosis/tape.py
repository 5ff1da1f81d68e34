"""A recorded launch as data: the operations of a few programs, each with its line, its inputs and its values.

The bytes come from a sandbox (grader/interpreter/recording.py), so they are parsed strictly: every number is in range,
every array lies inside the block, every input was made before it is used. Anything else raises ValueError.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

MOVES = ("reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather", "stack")
KINDS = {
    name: np.dtype(name)
    for name in ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8")
}
WHOLE = frozenset({int})
MAX_NODES = 70_000
MAX_ELEMENTS = 1 << 26


@dataclass(eq=False, slots=True)
class Node:
    """One operation. Never changed; it is not frozen because there are many, and a frozen one takes twice as long to make.

    op: the builder's name for it, such as "fmul", "dot", "load" or "store". type: Triton's dtype of the result.
    attribute: axis, order or kind. data: the result's values, None where they are only moved or unknown.
    offsets, active, tensor: of loads and stores, the element that each lane touches, counted from the tensor's first
    one; whether it does; and the pointer argument, "" when the lanes do not all belong to one.
    """

    number: int
    op: str
    line: int | None
    inputs: tuple[int, ...]
    type: str
    shape: tuple[int, ...]
    attribute: Any
    data: np.ndarray[Any, Any] | None
    offsets: np.ndarray[Any, Any] | None
    active: np.ndarray[Any, Any] | None
    tensor: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Stored:
    """One store or atomic of any program, recorded or not: who, where, and the range of elements it touched."""

    program: int
    op: str
    line: int | None
    tensor: str
    lowest: int
    highest: int
    lanes: int


@dataclass(frozen=True, eq=False)
class Tape:
    """All that was recorded. programs: linear program number to its range of nodes. calls: the lines that called the function
    of a line, 0 for none."""

    nodes: tuple[Node, ...]
    programs: Mapping[int, range]
    stores: tuple[Stored, ...]
    calls: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def caller(self, line: int | None) -> int | None:
        """The one line whose call leads to a line of a helper; None where there is none, or more than one."""
        callers = self.calls.get(line or 0, ())
        return callers[0] or None if len(callers) == 1 else None

    @cached_property
    def accesses(self) -> Mapping[int, tuple[Node, ...]]:
        """The recorded loads, stores and atomics of each program."""
        return {
            program: tuple(
                node
                for node in self.nodes[numbers.start : numbers.stop]
                if node.op.startswith(("load", "store", "atomic"))
            )
            for program, numbers in self.programs.items()
        }


def parse(record: bytes) -> Tape:
    """The tape in a record. Raises ValueError for bytes that are none."""
    try:
        return _parse(record)
    except (KeyError, TypeError, IndexError, AttributeError, struct.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a record ({error})") from None


def _parse(record: bytes) -> Tape:
    (length,) = struct.unpack_from("<I", record)
    document = json.loads(record[4 : 4 + length])
    body = memoryview(record)[4 + length :]
    arrays = [_array(body, *entry) for entry in document["arrays"]]
    names = [str(name) for name in document["tensors"]]
    entries = document["nodes"]
    if len(entries) > MAX_NODES:
        raise ValueError("a record of too many operations")
    nodes = tuple(_node(number, entry, arrays, names) for number, entry in enumerate(entries))
    programs = {}
    for program, start, end in document["programs"]:
        if not 0 <= _whole(start) <= _whole(end) <= len(nodes):
            raise ValueError("a program outside the record")
        programs[_whole(program)] = range(start, end)
    stores = tuple(
        Stored(_whole(p), str(op), None if line is None else _whole(line), _named(names, tensor), _whole(low), _whole(high),
               _whole(lanes))
        for p, op, line, tensor, low, high, lanes in document["stores"]
    )  # fmt: skip
    calls = {
        _whole(line): tuple(_whole(caller) for caller in callers) for line, callers in document["calls"][:MAX_NODES]
    }
    return Tape(nodes, programs, stores, calls)


def _array(body: memoryview, place: int, dtype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    kind = KINDS.get(dtype)
    if kind is None:
        raise ValueError(f"an array of {dtype!r}")
    sizes = _sizes(shape)
    count = math.prod(sizes)
    if count > MAX_ELEMENTS or not 0 <= _whole(place) <= len(body) - count * kind.itemsize:
        raise ValueError("an array outside the record")
    return np.frombuffer(body, kind, count, place).reshape(sizes)


def _node(number: int, entry: Sequence[Any], arrays: Sequence[np.ndarray[Any, Any]], names: Sequence[str]) -> Node:
    op, line, inputs, kind, shape, attribute, data, offsets, active, tensor = entry
    if inputs and not (WHOLE.issuperset(map(type, inputs)) and min(inputs) >= 0 and max(inputs) < number):
        raise ValueError("an operation on something that comes later")
    sizes = _sizes(shape)
    kept = [arrays[_place(index)] if index != -1 else None for index in (data, offsets, active)]
    if any(array is not None and array.shape != sizes for array in kept):
        raise ValueError("an array of another shape than its operation")
    return Node(number, str(op), None if line is None else _whole(line), tuple(inputs), str(kind), sizes, attribute, kept[0], kept[1],
                kept[2], _named(names, tensor))  # fmt: skip


def _place(index: Any) -> int:
    if _whole(index) < 0:
        raise ValueError("not a place")
    return int(index)


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    if not WHOLE.issuperset(map(type, shape)) or (shape and not (min(shape) >= 0 and max(shape) < 2**62)):
        raise ValueError("not a size")
    return tuple(shape)


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= _whole(number) < len(names) else ""


def _whole(value: Any) -> int:
    if type(value) is not int or not -(2**62) < value < 2**62:
        raise ValueError("not a whole number")
    return value
