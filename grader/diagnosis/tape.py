"""A recorded launch as data: the operations of a few programs, each with its line, its inputs and its values.

The bytes come from a sandbox (grader/interpreter/recording.py, which says what they are), so they are parsed strictly: every number is in
range, every array lies inside the block, every input was made before it is used. Anything else raises ValueError.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

MOVES = ("reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split", "gather", "stack")
KINDS = {
    name: np.dtype(name)
    for name in ("|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8")
}
MAX_NODES = 70_000
MAX_ELEMENTS = 1 << 26
WIDTH = 11
"""Of the table of nodes."""
NOTHING = np.zeros(0, dtype=np.int64)


class CalledLine(int):
    """The line of a node, which knows the line that called its function: None for one of the kernel's own."""

    caller: int | None = None

    @classmethod
    def of(cls, number: int, caller: int | None) -> CalledLine:
        found = cls(number)
        found.caller = caller or None
        return found


def called_line(line: CalledLine | None) -> tuple[int, int | None] | None:
    """A line and the one that called its function: two calls of a helper differ in this, and not in their line."""
    return None if line is None else (int(line), line.caller)


class _Arrays:
    """The arrays of a record, each made when it is asked for."""

    def __init__(
        self, body: memoryview, table: np.ndarray[Any, Any], kinds: Sequence[Any], shapes: Sequence[Any]
    ) -> None:
        self.body, self.table, self.kinds, self.shapes = body, table, kinds, shapes

    def __getitem__(self, number: int) -> np.ndarray[Any, Any]:
        place, kind, shape = self.table[number].tolist()
        sizes = self.shapes[shape]
        return np.frombuffer(self.body, self.kinds[kind], math.prod(sizes), place).reshape(sizes)


@dataclass(eq=False, slots=True)
class Node:
    """One operation. Never changed; it is not frozen because there are many, and a frozen one takes twice as long to make.

    op: the builder's name for it, such as "fmul", "dot", "load" or "store". type: Triton's dtype of the result.
    attribute: axis, order or kind. place: of the result's values among `arrays`, -1 where they are only moved or unknown.
    offsets, active, tensor: of loads and stores, the element that each lane touches, counted from the tensor's first
    one; whether it does; and the pointer argument, "" when the lanes do not all belong to one.
    """

    number: int
    op: str
    line: CalledLine | None
    inputs: tuple[int, ...]
    type: str
    shape: tuple[int, ...]
    attribute: Any
    place: int
    arrays: _Arrays
    offsets: np.ndarray[Any, Any]
    active: np.ndarray[Any, Any]
    tensor: str

    @property
    def called_line(self) -> tuple[int, int | None] | None:
        return called_line(self.line)

    @property
    def data(self) -> np.ndarray[Any, Any] | None:
        return None if self.place < 0 else self.arrays[self.place]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Stored:
    """One store or atomic of any program, recorded or not: who, and the range of elements it touched."""

    program: int
    op: str
    tensor: str
    lowest: int
    highest: int


@dataclass(frozen=True, eq=False)
class Tape:
    """All that was recorded. programs: linear program number to its range of nodes. all_stores: whether `stores` has those of every
    program."""

    nodes: tuple[Node, ...]
    programs: Mapping[int, range]
    stores: tuple[Stored, ...]
    all_stores: bool = True

    @cached_property
    def calls(self) -> Mapping[int, frozenset[int | None]]:
        """The lines that called the function of each line."""
        made = {node.called_line for node in self.nodes if node.called_line is not None}
        return {line: frozenset(caller for one, caller in made if one == line) for line, _ in made}

    def caller(self, line: int | None) -> int | None:
        """The line whose call leads to a line of a helper: that of a node's, else the only one; None where there is none."""
        if isinstance(line, CalledLine):
            return line.caller
        callers = self.calls.get(line or 0, frozenset())
        return next(iter(callers)) if len(callers) == 1 else None

    @cached_property
    def accesses(self) -> Mapping[int, tuple[Node, ...]]:
        """The recorded loads, stores and atomics of each program."""
        return {
            program: tuple(node for node in self.nodes[numbers.start : numbers.stop] if _touches(node.op))
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
    counts = [_whole(size, 0, MAX_ELEMENTS) for size in document["sizes"]]
    if counts[0] > MAX_NODES:
        raise ValueError("a record of too many operations")
    body, tables = memoryview(record)[4 + length :], []
    for kind, count, width in zip(("<i4", "<i4", "<i8"), counts, (WIDTH, 1, 3), strict=True):
        tables.append(np.frombuffer(body, kind, count * width).reshape(count, width))
        body = body[tables[-1].nbytes :]
    programs = {_whole(p): range(start, _whole(end, start, counts[0])) for p, start, end in document["programs"]}
    names = [str(name) for name in document["tensors"]]
    stores = tuple(
        Stored(_whole(p), str(op), _named(names, tensor), _whole(low), _whole(high))
        for p, op, _, tensor, low, high, _ in document["stores"]
    )
    return Tape(tuple(_nodes(document, names, body, *tables)), programs, stores, document["all_stores"] is True)


def _nodes(
    document: Mapping[str, Any], names: Sequence[str], body: memoryview, nodes: Any, inputs: Any, arrays: Any
) -> Iterator[Node]:
    """Once all numbers of the three tables are known to be in range. names: of the tensors."""
    ops, types = ([str(name) for name in document[kind]] for kind in ("ops", "types"))
    shapes = [tuple(_whole(int(size), 0) for size in text.split(",") if text) for text in document["shapes"]]
    attributes, kinds = list(map(json.loads, document["attributes"])), [KINDS[str(name)] for name in document["dtypes"]]
    op, _, kind, shape, attribute, given, *array_columns = nodes.T[:-2]
    for column, end in (
        (op, ops),
        (kind, types),
        (shape, shapes),
        (attribute, attributes),
        (arrays[:, 1], kinds),
        (arrays[:, 2], shapes),
    ):
        _check(column, 0, len(end), "a number without a meaning")
    _check(given, 0, len(inputs) + 1, "operations on too much")
    if int(given.sum()) != len(inputs):
        raise ValueError("inputs of no operation")
    _check(inputs[:, 0], 0, np.repeat(np.arange(len(nodes)), given), "an operation on something that comes later")
    lengths = np.array([min(math.prod(sizes), MAX_ELEMENTS + 1) for sizes in shapes], dtype=np.int64)[arrays[:, 2]]
    _check(lengths, 0, MAX_ELEMENTS + 1, "an array that is too large")
    widths = np.array([one.itemsize for one in kinds], dtype=np.int64)[arrays[:, 1]]
    _check(arrays[:, 0], 0, len(body) - lengths * widths + 1, "an array outside the record")
    for column in array_columns:
        _check(column, -1, len(arrays), "not a place")
        if (arrays[column[column >= 0], 2] != shape[column >= 0]).any():
            raise ValueError("an array of another shape than its operation")
    if (nodes[np.array(list(map(_touches, ops)), dtype=bool)[op], 7:9] < 0).any():
        raise ValueError("an access of nothing")
    found, of_all, at = _Arrays(body, arrays, kinds, shapes), inputs[:, 0].tolist(), 0
    for number, row in enumerate(nodes.tolist()):
        start, at = at, at + row[5]
        offsets, active = (NOTHING if place < 0 else found[place] for place in row[7:9])
        yield Node(
            number,
            ops[row[0]],
            _line(row[1], row[10]),
            tuple(of_all[start:at]),
            types[row[2]],
            shapes[row[3]],
            attributes[row[4]],
            row[6],
            found,
            offsets,
            active,
            _named(names, row[9]),
        )


@lru_cache(MAX_NODES)
def _line(number: int, caller: int) -> CalledLine | None:
    if number < 0:
        return None
    return CalledLine.of(number, caller)


def _touches(op: str) -> bool:
    """Whether an operation is an access; what an atomic gives back is a node of its own."""
    return op in ("load", "store") or op.startswith("atomic ")


def _check(column: Any, low: int, end: Any, message: str) -> None:
    if ((column < low) | (column >= end)).any():
        raise ValueError(message)


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= _whole(number) < len(names) else ""


def _whole(value: Any, low: int = -(2**62), high: int = 2**62) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError("not a whole number in range")
    return value
