"""Does what a launch leaves depend on the order of its programs, or of the lanes of one access?

Programs and lanes run in no order on a GPU, one after the other on the interpreter. So each element of a tensor that is written to
keeps who wrote it last and how, and of an output also who read it before.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from areas import Area, along_axes, steps_of
from findings import Findings
from native_memory import line_in

SEVERAL = -(2**62)
"""In place of a program: several added to an element, and none stored to it. Its opposite: several stored the same number to it."""
EXCHANGES = ("XCHG", "CAS")
"""Atomics that leave in memory what the last one brought: two of them in another order leave something else."""
SAME = 2.0**-8
"""How far two programs' numbers for an element may be apart, relative to it, when each has summed up in an order of its own."""


MOST_LANES, MOST_SHAPES = 1 << 24, 1 << 10
"""More than a tile has, and than a kernel has shapes of tiles."""

FLOATS = {width: np.dtype(f"f{width}") for width in (2, 4, 8)}


class Races:
    """Follows who reads and writes which element. `found` gets what depends on an order.

    shared: the lanes of the last atomic whose element another program stored or added to before; None: none.
    """

    def __init__(self, found: Findings) -> None:
        self.found = found
        self.shared: np.ndarray | None = None
        self._barriers = 0
        self._program = -1
        self._shapes: dict[tuple[int, ...], int] = {}
        self._atomics: dict[str, int] = {}
        self._lines: frozenset[int] | None = None

    def barrier(self) -> None:
        """From here on every thread of a program finds what any of them has stored."""
        self._barriers += 1

    def follow(
        self, kind: str, area: Area, active: np.ndarray, program: int, pointers: np.ndarray, mask: np.ndarray, width: int,
        values: Any, operation: str,
    ) -> None:  # fmt: skip
        """Races between programs, and reads of an output that nothing was written to. An access may be several elements wide."""
        if kind == "store" or operation == "XCHG":
            self._look_at_lanes(kind, area, active, pointers, mask, np.broadcast_to(values, pointers.shape)[mask])
        elements = (active - np.uint64(area.first)).view(np.int64).reshape(-1) // area.width
        if width > area.width:
            elements = (elements[:, None] + np.arange(width // area.width)).reshape(-1)
        within = (elements >= 0) & (elements < len(area.valid))
        elements = elements[within]
        if area.writer is None:
            area.writer = np.zeros(len(area.valid), dtype=np.int64)
        before = area.writer[elements]
        if kind != "store" and area.poisoned and not before.all():
            at = elements[np.flatnonzero(before == 0)[0]]
            self.found.place("unwritten", kind, area, int(at))
        others = (before != 0) & (np.abs(before) != program + 1)
        used = kind == "atomic" and (area.output or bool(others.any())) and line_in(self.found.path) in self._uses()
        if kind == "atomic":
            if not used:
                self._share(others, within, pointers, mask)
            others &= (before > 0) | self._unlike(area, elements, operation) | used
        added = others & (before < 0) if kind == "store" else np.zeros_like(others)
        changed, rounded = others & ~added, np.zeros_like(others)
        brought = np.broadcast_to(values, pointers.shape)[mask][within] if kind == "store" and width == area.width else None
        if brought is not None and changed.any():
            differ, apart = _changes(area, elements, brought)
            rounded = self._doubt(area, elements, apart, changed)
            changed &= differ
        for fault, differs, lanes in (("mixed", True, added), ("race", True, changed), ("race", False, others & ~added & ~changed)):
            if lanes.any():
                self._race_between(fault, kind, area, pointers, mask, elements, before, lanes, program, differs=differs)
        if rounded.any():
            self._race_between("race", kind, area, pointers, mask, elements, before, rounded, program, differs=True, doubtful=True)
        if area.output and kind == "atomic":
            count_additions(area, elements, np.broadcast_to(values, pointers.shape)[mask], within)
        if area.output:
            self._follow_threads(kind, area, elements, before, program, mask, within, values)
            self._follow_readers(kind, area, elements, before, program, brought, used=used)
        if kind == "store":
            area.writer[elements] = np.where((before > 0) & (before != program + 1), -SEVERAL, program + 1)
        elif kind == "atomic":
            alone = (before == 0) | (before == -(program + 1))
            area.writer[elements] = np.where(before > 0, before, np.where(alone, -(program + 1), SEVERAL))

    def _race_between(
        self, fault: str, kind: str, area: Area, pointers: np.ndarray, mask: np.ndarray, elements: np.ndarray, before: np.ndarray,
        lanes: np.ndarray, program: int, *, differs: bool, doubtful: bool = False,
    ) -> None:  # fmt: skip
        """The first of the lanes whose element another program, as `before` says, has written."""
        at = np.flatnonzero(lanes)[0]
        pair = (int(abs(before[at])) - 1, program) if abs(before[at]) != -SEVERAL else ()
        self._race(fault, kind, area, pointers, mask, int(elements[at]), *pair, differs=differs, doubtful=doubtful)

    def _doubt(self, area: Area, elements: np.ndarray, apart: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Lanes whose number is another one, by what rounding may explain or not: that is known when Y holds what it is to hold."""
        doubtful = among & (apart > 0)
        if doubtful.any():
            if area.apart is None:
                area.apart = np.zeros(len(area.valid))
            np.maximum.at(area.apart, elements[doubtful], apart[doubtful])
        return doubtful

    def _follow_threads(
        self, kind: str, area: Area, elements: np.ndarray, before: np.ndarray, program: int, mask: np.ndarray, within: np.ndarray,
        values: Any,
    ) -> None:  # fmt: skip
        """Two accesses of a program to an element from other lanes, or in tiles of other shapes, with no barrier between: lanes are
        threads, and these do not wait for each other. What is loaded back may be what was there before the store; what is stored over
        another number, or over one that was just loaded, may come first."""
        if program != self._program:
            self._program = program
            self._barriers += 1
        shape = self._shapes.setdefault(mask.shape, len(self._shapes))
        lanes = np.repeat(np.flatnonzero(mask), len(within) // int(np.count_nonzero(mask)))[within]
        lanes += (self._barriers * MOST_SHAPES + shape % MOST_SHAPES) * MOST_LANES
        met = np.zeros(elements.shape, dtype=bool)
        if area.lanes is not None:
            met |= self._of_another_thread(area.lanes[elements], lanes)
            met &= (before > 0) | (kind != "atomic")  # additions may come in any order
        if area.readers is not None and kind != "load":
            met |= self._of_another_thread(area.readers[elements], lanes)
        if met.any() and kind == "store":
            met &= _brings_another(area, elements, values, mask, within)
        if met.any():
            self.found.place("thread", kind, area, int(elements[np.flatnonzero(met)[0]]), differs=True)
        if kind == "load":
            if area.readers is None:
                area.readers = np.full(len(area.valid), -1)
            another = self._of_another_thread(area.readers[elements], lanes)
            area.readers[elements] = np.where(another, (self._barriers + 1) * MOST_SHAPES * MOST_LANES - 1, lanes)  # several: no lane's
            return
        if area.lanes is None:
            area.lanes = np.full(len(area.valid), -1)
        area.lanes[elements] = lanes

    def _of_another_thread(self, known: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Which lanes are others than those that are known of the elements, from the same program and after the same barrier."""
        return (known != lanes) & (known // (MOST_SHAPES * MOST_LANES) == self._barriers)

    def _follow_readers(
        self, kind: str, area: Area, elements: np.ndarray, before: np.ndarray, program: int, brought: np.ndarray | None, *, used: bool
    ) -> None:
        """Of an output: who read an element before anybody wrote to it, and whether another program then does."""
        if area.reader is None:
            if kind != "load" and not used:
                return
            area.reader = np.zeros(len(area.valid), dtype=np.int64)
        known = area.reader[elements]
        if kind != "load":
            late = (known != 0) & (known != program + 1)
            if late.any() and brought is not None:
                late &= _changes(area, elements, brought)[0]
            if late.any():
                at = np.flatnonzero(late)[0]
                pair = (int(known[at]) - 1, program) if known[at] != -SEVERAL else ()
                self.found.place("race", "load", area, int(elements[at]), pair, differs=True, at=area.read_at)
        if kind == "load" or used:
            area.read_at = self.found.here() if area.read_at[0] is None else area.read_at
            first = before == 0
            area.reader[elements] = np.where(~first | (known == program + 1), known, np.where(known == 0, program + 1, -SEVERAL))

    def _look_at_lanes(
        self, kind: str, area: Area, active: np.ndarray, pointers: np.ndarray, mask: np.ndarray, values: np.ndarray
    ) -> None:
        """One store that brings different numbers to one element: on a GPU its lanes come in no order. values: of the lanes `active`."""
        unit = min(values.itemsize, area.width)
        if unit != values.itemsize:
            values = values.view(f"u{unit}")
        places = (active - np.uint64(area.first)).view(np.int64).reshape(-1) // unit
        places = (places[:, None] + np.arange(len(values) // len(places))).reshape(-1)
        within = (places >= 0) & (places < area.size // unit)
        places, values = places[within], values[within]
        lanes, last = np.arange(len(places)), np.empty(area.size // unit, dtype=np.int64)
        last[places] = lanes
        stays = last[places]
        if (stays != lanes).any():
            differ, apart = _differ(values[stays], values)
            elements = places * unit // area.width
            rounded = self._doubt(area, elements, apart, ~differ) if unit == area.width else np.zeros_like(differ)
            differ |= (apart > 0) & ~rounded
            for these, doubtful in ((differ, False), (rounded, True)):
                if these.any():
                    first = int(elements[np.flatnonzero(these)[0]])
                    self._race("lanes", kind, area, pointers, mask, first, differs=True, doubtful=doubtful)

    def _share(self, others: np.ndarray, within: np.ndarray, pointers: np.ndarray, mask: np.ndarray) -> None:
        """Keeps which lanes of an atomic met what other programs had left. others: of the elements `within` the tensor's buffer."""
        elements = np.zeros(within.shape, dtype=bool)
        elements[within] = others
        self.shared = np.zeros(pointers.shape, dtype=bool)
        self.shared[mask] = elements.reshape(int(np.count_nonzero(mask)), -1).any(axis=1)

    def _uses(self) -> frozenset[int]:
        """Lines of the module on which something is made of what an atomic gives back; a helper that returns it is not among them."""
        if self._lines is None:
            with open(self.found.path, encoding="utf-8") as file:
                nodes = list(ast.walk(ast.parse(file.read())))
            loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
            left = {node.value for node in nodes if isinstance(node, (ast.Expr, ast.Return))}
            left |= {
                node.value for node in nodes
                if isinstance(node, ast.Assign) and not loaded & {getattr(target, "id", "") for target in node.targets}
            }  # fmt: skip
            renamed = {
                alias.asname for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names if "atomic_" in alias.name
            }  # fmt: skip
            calls = [
                node for node in nodes if isinstance(node, ast.Call) and node not in left
                and ("atomic_" in (called := ast.unparse(node.func)) or called in renamed)
            ]  # fmt: skip
            self._lines = frozenset(line for node in calls for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return self._lines

    def _unlike(self, area: Area, elements: np.ndarray, operation: str) -> np.ndarray:
        """Lanes whose atomic leaves something else if it comes before those that were there: another kind, or an exchange."""
        if area.operation is None:
            area.operation = np.zeros(len(area.valid), dtype=np.int8)
        number = self._atomics.setdefault(operation, len(self._atomics) + 1)
        before = area.operation[elements]
        area.operation[elements] = np.where((before == 0) | (before == number), number, -1)
        return ((before != 0) & (before != number)) | (operation in EXCHANGES)

    def _race(
        self, fault: str, kind: str, area: Area, pointers: np.ndarray, mask: np.ndarray, element: int, *programs: int, differs: bool,
        doubtful: bool = False,
    ) -> None:  # fmt: skip
        """An element of two programs, or of more (`programs` is empty then).

        A lane that was meant for beyond the end of a row lies in the next row: `dimension` and `meant` say which end it
        passed and where it was to go.
        """
        offsets = (pointers - np.uint64(area.base)).view(np.int64) // area.width
        along = along_axes(offsets, area)
        here = mask & (offsets == element - area.offset)
        for dimension, at in enumerate(along or ()):
            beyond = here & (at >= area.shape[dimension])
            if along and beyond.any():
                lane = tuple(np.argwhere(beyond)[0])
                meant = [int(index[lane]) for index in along]
                self.found.place(fault, kind, area, element, programs, doubtful=doubtful, differs=differs, dimension=dimension, meant=meant)
                return
        self.found.place(fault, kind, area, element, programs, doubtful=doubtful, differs=differs, steps=steps_of(offsets))


def too_far_apart(area: Area) -> bool:
    """Whether numbers that several brought to an element differ by more than rounding explains, beside what the rows hold at the end."""
    return area.apart is not None and bool((area.apart > SAME / 4 * area.row_maxima(FLOATS[area.width])).any())


def _brings_another(area: Area, elements: np.ndarray, values: Any, mask: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Which elements a store, which may be several elements wide, gives another number than they hold."""
    brought = np.ascontiguousarray(np.broadcast_to(values, mask.shape)[mask]).reshape(-1)
    if brought.itemsize < area.width:
        return np.ones(elements.shape, dtype=bool)
    if brought.itemsize > area.width:
        brought = brought.view(f"u{area.width}")
    differ, apart = _changes(area, elements, brought[within])
    return differ | (apart > 0)


def _changes(area: Area, elements: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which elements a store changes, and by how much where rounding may explain it."""
    whole = area.buffer[: len(area.valid) * area.width]
    if values.dtype.kind != "f":
        bits = f"u{area.width}"
        return _differ(whole.view(bits)[elements], np.ascontiguousarray(values).view(bits))
    return _differ(whole.view(values.dtype)[elements], values)


def _differ(there: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers are others; and by how much those are apart of which only what the whole row comes to can tell: sums in another
    order, where large terms leave little."""
    if values.dtype.kind != "f":
        return there != values, np.zeros(values.shape)
    there, values = there.astype(np.float64), values.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(there - values)
        same = (apart <= SAME * np.abs(values)) | (there == values) | (np.isnan(there) & np.isnan(values))
    known = ~np.isfinite(apart)
    return known & ~same, np.where(same | known, 0.0, apart)


def count_additions(area: Area, elements: np.ndarray, values: np.ndarray, within: np.ndarray) -> None:
    """Counts an atomic for each element that it brings anything but zero. within: which elements of the access are the buffer's."""
    if area.added is None:
        area.added = np.zeros(len(area.valid), dtype=np.int64)
    brings = np.repeat((values != 0).reshape(-1), len(within) // values.size)[within]
    np.add.at(area.added, elements[brings], 1)
