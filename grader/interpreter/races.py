"""Does what a launch leaves depend on the order of its programs, or of the lanes of one access?

Programs and lanes run in no order on a GPU, one after the other on the interpreter. So each element of a tensor that is written to
keeps who wrote it last and how, and of an output also who read it before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.interpreter.areas import Area, along_axes, steps_of
from grader.interpreter.atomic_answers import lines_of_use
from grader.interpreter.differences import SAME, changes, differ
from grader.interpreter.launch_findings import Findings
from grader.interpreter.memory_access import MemoryAccess
from grader.interpreter.split_k import Contributions
from grader.interpreter.threads import Threads

SEVERAL = -(2**62)
"""In place of a program: several added to an element, and none stored to it. Its opposite: several stored the same number to it."""
WITHIN_A_PROGRAM = " within a program"
"""Of an atomic whose scope is its program: to others it is a load and a store."""
EXCHANGES = ("XCHG", "CAS")
"""Atomics that leave in memory what the last one brought: two of them in another order leave something else."""
ADDS = ("ADD", "FADD")
FLOATS = {width: np.dtype(f"f{width}") for width in (2, 4, 8)}


class Races:
    """Follows who reads and writes which element. `found` gets what depends on an order."""

    def __init__(self, found: Findings) -> None:
        self.found = found
        self.threads = Threads(found)
        self._atomics: dict[str, int] = {}

    def follow(self, access: MemoryAccess, contributions: Contributions | None = None) -> None:
        """Races between programs, and reads of an output that nothing was written to. An access may be several elements wide."""
        kind, area = access.kind, access.area
        if kind == "store" or access.operation == "XCHG":
            self._check_lanes(access)
        if kind != "store" and area.poisoned and not access.before.all():
            at = access.elements[np.flatnonzero(access.before == 0)[0]]
            self.found.place("unwritten", kind, area, int(at))
        used = self._uses_answer(access)
        self._check_programs(access, used=used)
        if area.output:
            if kind == "atomic":
                count_additions(area, access.elements, access.of_lanes, access.within)
            if contributions and kind != "load":
                adds = access.operation.removesuffix(WITHIN_A_PROGRAM) in ADDS
                contributions.write(area, access.elements, access.of_lanes.reshape(-1), access.program, adds=adds)
            self.threads.follow(access)
            self._follow_readers(access, used=used)
        _keep_writers(access)

    def _uses_answer(self, access: MemoryAccess) -> bool:
        """Whether something is made of what an atomic gives back, which is of an output or was another program's."""
        if access.kind != "atomic" or not (access.area.output or access.of_other_programs.any()):
            return False
        return self.found.here()[0] in lines_of_use(self.found.path)

    def _check_programs(self, access: MemoryAccess, *, used: bool) -> None:
        """What other programs wrote, and this one adds to, changes, or writes again."""
        kind, others = access.kind, access.of_other_programs
        if kind == "atomic":
            if not used:
                self._share(others, access)
            others &= (access.before > 0) | self._unlike(access) | used
        added = others & (access.before < 0) if kind == "store" else np.zeros_like(others)
        changed, rounded = self._changed(access, others & ~added)
        for fault, differs, doubtful, lanes in (
            ("mixed", True, False, added),
            ("race", True, False, changed),
            ("race", False, False, others & ~added & ~changed),
            ("race", True, True, rounded),
        ):
            if lanes.any():
                at = np.flatnonzero(lanes)[0]
                pair, element = _pair(access.before[at], access.program), int(access.elements[at])
                self._race(fault, access, element, pair, differs=differs, doubtful=doubtful)

    def _changed(self, access: MemoryAccess, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of these lanes those that bring another number than is there, and those for which rounding may explain it."""
        brought = access.brought
        if brought is None or not among.any():
            return among, np.zeros_like(among)
        another, apart = changes(access.area, access.elements, brought)
        return among & another, self._doubt(access.area, access.elements, apart, among)

    def _doubt(self, area: Area, elements: np.ndarray, apart: np.ndarray, among: np.ndarray) -> np.ndarray:
        """Lanes whose number is another one, by what rounding may explain or not: that is known when Y holds what it is to hold."""
        doubtful = among & (apart > 0)
        if doubtful.any():
            if area.apart is None:
                area.apart = np.zeros(len(area.valid))
            np.maximum.at(area.apart, elements[doubtful], apart[doubtful])
        return doubtful

    def _follow_readers(self, access: MemoryAccess, *, used: bool) -> None:
        """Of an output: who read an element before anybody wrote to it, and whether another program then does."""
        area, elements, program, reads = access.area, access.elements, access.program, access.kind == "load"
        if area.reader is None:
            if not reads and not used:
                return
            area.reader = np.zeros(len(area.valid), dtype=np.int64)
        known = area.reader[elements]
        if not reads:
            late, rounded = self._changed(access, (known != 0) & (known != program + 1))
            for these, doubtful in ((late, False), (rounded, True)):
                if these.any():
                    at = np.flatnonzero(these)[0]
                    element, pair = int(elements[at]), _pair(known[at], program)
                    self.found.place(
                        "race", "load", area, element, pair, doubtful=doubtful, differs=True, at=area.read_at
                    )
        if reads or used:
            area.read_at = self.found.here() if area.read_at[0] is None else area.read_at
            first = access.before == 0
            area.reader[elements] = np.where(
                ~first | (known == program + 1), known, np.where(known == 0, program + 1, -SEVERAL)
            )

    def _check_lanes(self, access: MemoryAccess) -> None:
        """One store that brings different numbers to one element: on a GPU its lanes come in no order."""
        area, values = access.area, access.of_lanes
        unit = min(values.itemsize, area.width)
        if unit != values.itemsize:
            values = values.view(f"u{unit}")
        places = area.offsets(access.active).reshape(-1) // unit
        places = (places[:, None] + np.arange(len(values) // len(places))).reshape(-1)
        within = (places >= 0) & (places < area.size // unit)
        places, values = places[within], values[within]
        lanes, last = np.arange(len(places)), np.empty(area.size // unit, dtype=np.int64)
        last[places] = lanes
        stays = last[places]
        if (stays != lanes).any():
            another, apart = differ(values[stays], values)
            elements = places * unit // area.width
            rounded = self._doubt(area, elements, apart, ~another) if unit == area.width else np.zeros_like(another)
            another |= (apart > 0) & ~rounded
            for these, doubtful in ((another, False), (rounded, True)):
                if these.any():
                    first = int(elements[np.flatnonzero(these)[0]])
                    self._race("lanes", access, first, (), differs=True, doubtful=doubtful)

    def _share(self, others: np.ndarray, access: MemoryAccess) -> None:
        """Keeps which lanes of an atomic met what other programs had left. others: of the elements of the access."""
        elements = np.zeros(access.within.shape, dtype=bool)
        elements[access.within] = others
        access.shared = np.zeros(access.pointers.shape, dtype=bool)
        access.shared[access.mask] = elements.reshape(int(np.count_nonzero(access.mask)), -1).any(axis=1)

    def _unlike(self, access: MemoryAccess) -> np.ndarray:
        """Lanes whose atomic leaves something else if it comes before those that were there: another kind, an exchange, or one that
        is none to other programs."""
        area, elements, operation = access.area, access.elements, access.operation
        if area.operation is None:
            area.operation = np.zeros(len(area.valid), dtype=np.int8)
        number = self._atomics.setdefault(operation, len(self._atomics) + 1)
        before = area.operation[elements]
        area.operation[elements] = np.where((before == 0) | (before == number), number, -1)
        return ((before != 0) & (before != number)) | operation.endswith((*EXCHANGES, WITHIN_A_PROGRAM))

    def _race(self, fault: str, access: MemoryAccess, element: int, programs: tuple[int, ...], **how: bool) -> None:
        """An element of two programs, or of more (`programs` is empty then).

        A lane that was meant for beyond the end of a row lies in the next row: `dimension` and `meant` say which end it
        passed and where it was to go. how: `differs` and `doubtful`, as for `Findings`.
        """
        area, kind = access.area, access.kind
        offsets = (access.pointers - np.uint64(area.base)).view(np.int64) // area.width
        along = [at[0] for at in along_axes(offsets[None], area) or ()]
        here = access.mask & (offsets == element - area.offset)
        where: dict[str, Any] = {"steps": steps_of(offsets)}
        for dimension, at in enumerate(along):
            beyond = here & (at >= area.shape[dimension])
            if beyond.any():
                lane = tuple(np.argwhere(beyond)[0])
                where = {"dimension": dimension, "meant": [int(index[lane]) for index in along]}
                break
        self.found.place(fault, kind, area, element, programs, **how, **where)


def _pair(other: int, program: int) -> tuple[int, ...]:
    """Two programs; none where an element keeps of the `other` that it was several."""
    return (abs(int(other)) - 1, program) if abs(other) != -SEVERAL else ()


def _keep_writers(access: MemoryAccess) -> None:
    """Who wrote each element last, for the next access."""
    writer, elements, before, own = access.area.writer, access.elements, access.before, access.program + 1
    if access.kind == "store":
        writer[elements] = np.where((before > 0) & (before != own), -SEVERAL, own)
    elif access.kind == "atomic":
        alone = (before == 0) | (before == -own)
        writer[elements] = np.where(before > 0, before, np.where(alone, -own, SEVERAL))


def too_far_apart(area: Area) -> bool:
    """Whether numbers that several brought to an element differ by more than rounding explains, beside what the rows hold at the end."""
    return area.apart is not None and bool((area.apart > SAME / 4 * area.row_maxima(FLOATS[area.width])).any())


def count_additions(area: Area, elements: np.ndarray, values: np.ndarray, within: np.ndarray) -> None:
    """Counts an atomic for each element that it brings anything but zero. within: which elements of the access are the buffer's."""
    if area.added is None:
        area.added = np.zeros(len(area.valid), dtype=np.int64)
    brings = np.repeat((values != 0).reshape(-1), len(within) // values.size)[within]
    np.add.at(area.added, elements[brings], 1)
