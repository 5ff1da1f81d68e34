"""A launch whose programs run together, in lockstep, as long as nothing is wrong with them.

Most launches are of many small programs that do the same: on the interpreter each operation costs more than its arithmetic. So one
pass of the kernel's Python does the work of a whole batch of programs (per_program.py). Programs that part, at a condition or at the
iterations of a loop, are run again in groups that stay together, which is possible before anything is stored.

Only what needs no judgement is done here: loads of inputs inside them, stores of one program to elements of its own, additions by
atomics whose answer nobody uses; loads beside a tensor are told as they come. Nothing that is stored is ever loaded here, so what is
stored can be judged afterwards: it is logged, and made again one program after the other under memory_check (`judged`). Whatever else
happens raises an exception, and the whole launch runs so from its beginning. So what comes out is what comes out there, but for the
order of additions that nothing had to be said of.
"""

from __future__ import annotations

import math
import resource
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from grader.interpreter import strays
from grader.interpreter.areas import Area, area_of
from grader.interpreter.launch_findings import Place
from grader.interpreter.memory_access import is_misaligned
from grader.interpreter.memory_check import MemoryCheck, is_index
from grader.interpreter.native_memory import NativeMemory, taken
from grader.interpreter.per_program import MOST_ELEMENTS, Diverged, NeedsOneByOne, PerProgram, programs_of, stacked
from grader.interpreter.program_loop import tell_grid
from grader.interpreter.races import ADDS, SEVERAL, count_additions

TILE_ELEMENTS = 1 << 20
"""Of the tiles of all programs of a batch together: what is larger takes longer in NumPy than on the way there."""
FIRST_PROGRAMS, MOST_PROGRAMS = 64, 1024
"""Of the first batch, and of any: each may have twice as many as the one before, unless a batch takes more memory than ROOM, or a tile of
its programs more elements than may be kept together."""
ROOM = 1 << 18
"""KiB. The constants do not always tell how large tiles are."""
FEWEST = 3
"""Programs that are worth it."""
MAX_DIVERGENCES = 12
"""How often FIRST_PROGRAMS of a batch may part. A `while` that ends elsewhere in each of them would do it in each iteration."""
MOST_LOGGED = 1 << 24
"""Lanes of accesses that are kept to be judged afterwards."""


def batch_size(grid: Sequence[int], constants: dict[str, Any]) -> int:
    """How many programs to run together; 1: none. constants: of the kernel, of which the two largest are taken for a tile's sizes."""
    sizes = sorted((value for value in constants.values() if type(value) is int and value > 0), reverse=True)
    fitting = TILE_ELEMENTS // max(1, math.prod(sizes[:2]))
    size = min(MOST_PROGRAMS, math.prod(grid), fitting)
    return size if size >= FEWEST else 1


def launch(function: Any, grid: Sequence[int], size: int, arguments: Mapping[str, Any], check: Lockstep) -> None:
    """Runs every program of the grid, `size` together at most. Raises whatever keeps them from it, and memory is then to be thrown away.

    Neighbours along the first axis run together, as on a GPU: they mostly share what a loop's length depends on, and so stay together.
    function, arguments: as `program_loop.run` takes them.
    """
    dims, PerProgram.largest = tell_grid(grid), 0
    programs, before, batch = math.prod(dims), _peak_memory(), min(size, FIRST_PROGRAMS)
    while check.ended < programs:
        numbers = np.arange(check.ended, min(check.ended + batch, programs))
        check.divergences, check.partings = 0, MAX_DIVERGENCES * math.ceil(batch / FIRST_PROGRAMS)
        _run(function, arguments, np.stack(np.unravel_index(numbers, dims, order="F")).astype(np.int32), check)
        check.ended += len(numbers)
        if 2 * (_peak_memory() - before) <= ROOM and 2 * PerProgram.largest <= MOST_ELEMENTS:
            batch = min(2 * batch, size)


def _peak_memory() -> int:
    """Of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _run(function: Any, arguments: Mapping[str, Any], indices: np.ndarray, check: Lockstep) -> None:
    """One batch. indices: [3, programs]."""
    interpreter.interpreter_builder.grid_idx = tuple(PerProgram(axis[:, None]) for axis in indices)
    before, check.together, log = check.writes, indices.shape[1], check.log.mark()
    found = deepcopy(check.found)
    check.numbers = np.ravel_multi_index(tuple(indices), interpreter.interpreter_builder.grid_dim)
    if check.contributions:
        check.contributions.begin(check.numbers)
    try:
        function(**arguments)
    except Diverged as parting:
        check.divergences += 1
        if check.divergences > check.partings or (check.writes > before and check.contributions):
            raise
        check.log.back_to(log)
        check.found = found
        if check.writes > before:  # which is left out when it is judged
            check.log.dispute("programs that part after they stored")
        values, group = np.unique(parting.values, return_inverse=True)
        for number in range(len(values)):
            _run(function, arguments, indices[:, group == number], check)


def judged(log: Log, grid: Sequence[int], check: MemoryCheck) -> None:
    """Makes what was logged of a launch again, one program after the other, under `check`, whose tensors are as they were before it."""
    dims, builder = tell_grid(grid), interpreter.interpreter_builder
    with check.active():
        for program, accesses in sorted(log.by_program().items()):
            builder.set_grid_idx(*map(int, np.unravel_index(program, dims)))
            for access, row in accesses:
                check.found.at, check.found.moment = access.place, (program, access.moment)
                access.again(interpreter._interpreter, row, check)
    check.found.at = None


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """A store or an addition of some programs, `numbers`, or a barrier, which has no pointers. pointers, mask, values: [programs, ...], as
    the interpreter's memory functions take them; adding: the operation and the order of an atomic. moment: how many accesses of these
    programs came before."""

    place: Place
    moment: int
    numbers: np.ndarray
    pointers: np.ndarray | None = None
    mask: np.ndarray | None = None
    values: Any = None
    adding: tuple[Any, ...] = ()

    def again(self, memory: Any, row: int, check: MemoryCheck) -> None:
        """The access of one of the programs."""
        if self.pointers is None or self.mask is None:
            check.barrier()
        elif self.adding:
            operation, order = self.adding
            memory.atomic_rmw(operation, self.pointers[row], self.values[row], self.mask[row], order)
        else:
            memory.store(self.pointers[row], self.values[row], self.mask[row])


class Log:
    """What programs of a launch did that may have to be judged, in the order of each program. disputed: whether it has to be."""

    def __init__(self) -> None:
        self.disputed = False
        self._accesses: list[Logged] = []
        self._room = MOST_LOGGED

    def add(self, one: Logged) -> None:
        """Keeps it, while there is room: what is not complete can be judged no more. Raises NeedsOneByOne where it has to be."""
        self._room -= one.numbers.size if one.pointers is None else one.pointers.size
        if self._room >= 0:
            self._accesses.append(one)
            return
        self._accesses.clear()
        if self.disputed:
            raise NeedsOneByOne("more to be judged than is kept")

    def dispute(self, why: str) -> None:
        """Something has to be judged. Raises NeedsOneByOne where it cannot be any more."""
        if self._room < 0:
            raise NeedsOneByOne(why)
        self.disputed = True

    def mark(self) -> tuple[int, bool, int]:
        """For `back_to`."""
        return len(self._accesses), self.disputed, self._room

    def back_to(self, mark: tuple[int, bool, int]) -> None:
        """Forgets what came after."""
        count, self.disputed, room = mark
        self._room = self._room if self._room < 0 else room  # what was dropped is not there again
        del self._accesses[count:]

    def by_program(self) -> dict[int, list[tuple[Logged, int]]]:
        """For each program its accesses, and which row of theirs is its own."""
        found: dict[int, list[tuple[Logged, int]]] = defaultdict(list)
        for one in self._accesses:
            for row, program in enumerate(one.numbers.tolist()):
                found[program].append((one, row))
        return found

    def stores(self, areas: Sequence[Area]) -> list[list[Any]] | None:
        """What recording.py notes of each store or addition; None where not all of them are kept."""
        found = []
        for program, accesses in self.by_program().items():
            for one, row in accesses:
                if one.pointers is not None and one.mask is not None and one.mask[row].any():
                    active = one.pointers[row][one.mask[row]]
                    area, _ = area_of(active, areas)
                    assert area is not None  # else the launch would not have gone on
                    reached = area.elements(active) - area.offset
                    op = f"atomic {one.adding[0].name}".lower() if one.adding else "store"
                    place = [area.number, int(reached.min()), int(reached.max()), len(reached)]
                    found.append([program, op, one.place[0], *place])
        return found if self._room >= 0 else None


class Lockstep(MemoryCheck):
    """Follows one launch of batches. Raises NeedsOneByOne at the first access that would have to be judged before the next.

    together: how many programs are in the batch that runs; numbers: which along the grid. writes: stores and atomics so far.
    divergences: of the batch, so far; partings: how many there may be. log: what may have to be judged at the end. moment: how many
    accesses were logged or judged so far.
    """

    def __init__(self, *launch: Any) -> None:
        super().__init__(*launch)
        self.writes = self.divergences = self.moment = self.together = 0
        self.partings = MAX_DIVERGENCES
        self.numbers = np.zeros(0, dtype=np.int64)
        self.log = Log()

    def replacements(self) -> list[tuple[Any, str, Any]]:
        """As MemoryCheck's, with the builder's method that asks for the number of a program, and Triton's question for one number."""
        builder = interpreter.InterpreterBuilder
        return [
            *super().replacements(),
            (builder, "create_get_program_id", _program_id),
            (tl.core.tensor, "__bool__", _is_truthy(tl.core.tensor.__bool__)),
        ]

    def watched(self, memory: Any) -> NativeMemory:
        """What stands in front of Triton's native functions."""
        return _LockstepMemory(memory, self)

    def _broken(self, kind: str, promised: int, seen: tuple[int, ...]) -> None:
        raise NeedsOneByOne("a promise that is not kept")

    def barrier(self) -> None:
        """Of each program of the batch."""
        self.keep()

    def keep(self, *access: Any) -> None:
        """Logs what each program of the batch does."""
        self.moment += 1
        self.log.add(Logged(self.found.here(), self.moment, self.numbers, *access))

    def active_programs(self, mask: np.ndarray) -> np.ndarray:
        """For each lane that a mask [programs, ...] lets through the number of its program."""
        return np.repeat(self.numbers, np.count_nonzero(mask.reshape(len(mask), -1), axis=1))

    def locate(self, pointers: np.ndarray, mask: np.ndarray, width: int) -> tuple[Area | None, np.ndarray, bool]:
        """The tensor of an access, None if no lane is active; the elements of its buffer; and whether all lie in it."""
        active = pointers.reshape(-1) if mask.all() else pointers[mask]
        if not active.size:
            return None, active, True
        area, between = area_of(active, self.areas)
        if area is None:
            raise NeedsOneByOne("an access that lies near no single tensor")
        if is_misaligned(active, width):
            raise NeedsOneByOne("a misaligned access")
        inside = (between and area.dense and width == area.width) or bool(area.good(active, width).all())
        return area, area.elements(active), inside


class _LockstepMemory(NativeMemory):
    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        programs, index = programs_of(pointers, mask, other), is_index(dtype, pointers)
        if programs is not None:
            shape = pointers.shape
            pointers, mask, other = (stacked(value, programs, shape) for value in (pointers, mask, other))
        everywhere = np.broadcast_to(mask, pointers.shape)
        area, elements, inside = self._check.locate(pointers, everywhere, np.dtype(dtype).itemsize)
        if area is not None and area.output:
            raise NeedsOneByOne("a load of what is written")
        if area is not None and not inside:
            if index:
                raise NeedsOneByOne("an index from outside")
            loaded = self._load_beside(area, (pointers, everywhere, other), dtype, programs)
            return loaded if programs is None else PerProgram(loaded)
        contributions = self._check.contributions
        if contributions and area is contributions.factor:
            if programs is None:
                contributions.load_by_all(area, elements, self._check.numbers)
            else:
                contributions.load(area, elements, self._check.active_programs(everywhere))
        if area is not None and area.width == np.dtype(dtype).itemsize:
            loaded = taken(area, elements, pointers.shape, everywhere, other, dtype)
        else:
            shift = np.uint64(area.shift if area else 0)
            loaded = self._memory.load(pointers + shift, mask, other, dtype)
        return loaded if programs is None else PerProgram(loaded)

    def _load_beside(self, area: Area, lanes: tuple[Any, Any, Any], dtype: Any, programs: int | None) -> np.ndarray:
        """What a load finds some of whose lanes lie in no element of the tensor, as one program finds it. lanes: pointers, mask, other."""
        check, width = self._check, np.dtype(dtype).itemsize
        pointers, mask = (
            (stacked(one, check.together, np.shape(one)) for one in lanes[:2]) if programs is None else lanes[:2]
        )
        bad = np.zeros(mask.shape, dtype=bool)
        bad[mask] = ~area.good(pointers[mask], width)
        check.moment += 1
        some = bad.reshape(len(bad), -1).any(axis=1)
        moments = [(program, check.moment) for program in check.numbers[some].tolist()]
        strays.report(check.found, "load", area, pointers[some], mask[some], bad[some], moments, check.misled)
        if check.contributions:
            followed = mask & _near(area, pointers, mask, width)
            elements = area.elements(pointers[followed])
            check.contributions.load(area, elements, check.active_programs(followed))
        pointers, mask, other = lanes
        offsets = area.offsets(pointers)
        stray = mask & ((offsets < 0) | (offsets > area.size - width))
        real = np.where(stray, np.uint64(area.base), pointers) + np.uint64(area.shift)
        return self._load(real, mask & ~stray, other, dtype, stray)

    def store(self, pointers: Any, values: Any, mask: Any) -> None:
        self._write(pointers, values, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        as_bits = operation.name == "FADD" and values.dtype.kind != "f"  # bfloat16, which NumPy does not have
        if operation.name not in ADDS or as_bits or self._within_a_program():
            raise NeedsOneByOne("an atomic that does not add, or not to what other programs add to")
        self._write(pointers, values, mask, operation, order)
        return _UnknownAnswer(values.itemsize)

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        raise NeedsOneByOne("an exchange")

    def _write(self, pointers: Any, values: Any, mask: Any, *adding: Any) -> None:
        """What every program of the batch stores, or adds by the operation and in the order of `adding`."""
        check, log, shape = self._check, self._check.log, np.shape(pointers)
        check.writes += 1
        pointers, values, mask = (stacked(value, check.together, shape) for value in (pointers, values, mask))
        mask = mask.astype(bool, copy=False)
        area, elements, inside = check.locate(pointers, mask, values.itemsize)
        if area is None:
            return
        if not area.output or values.itemsize != area.width:
            raise NeedsOneByOne("a store to an input, or of several elements at once")
        check.keep(pointers, mask, values, adding)
        added = values[mask] if adding or check.contributions else None
        self._claim(area, elements, inside, added if adding else None)
        if check.contributions:
            numbers = check.active_programs(mask)
            if not inside:
                near = _near(area, pointers, mask, values.itemsize)[mask]
                elements, added, numbers = elements[near], added[near], numbers[near]
            check.contributions.write(area, elements, added, numbers, adds=bool(adding))
        if log.disputed:
            return
        stored = area.buffer.view(values.dtype)
        if not adding:
            stored[elements] = values[mask]
            return
        with np.errstate(over="ignore", invalid="ignore"):  # an fp16 sum past 65504 becomes infinite, as on a GPU
            np.add.at(stored, elements, values[mask])

    def _claim(self, area: Area, elements: np.ndarray, inside: bool, added: np.ndarray | None) -> None:
        """Keeps who writes the elements of a tensor, and that it is disputed where somebody else did. added: None where they are stored."""
        if area.writer is None:
            area.writer = np.zeros(len(area.valid), dtype=np.int64)
        writer, log = area.writer, self._check.log
        if added is None:
            if not inside or writer[elements].any():
                log.dispute("a store outside, or to what was written before")
                return
            lanes = np.arange(1, len(elements) + 1)
            writer[elements] = lanes
            if (writer[elements] != lanes).any():
                log.dispute("two stores to an element")
        elif not inside or area.poisoned or (writer[elements] > 0).any():
            log.dispute("an addition outside, to what was stored, or to what nothing was")
        else:
            writer[elements] = SEVERAL
            count_additions(area, elements, added, np.ones(len(elements), dtype=bool))


def _near(area: Area, pointers: np.ndarray, mask: np.ndarray, width: int) -> np.ndarray:
    """bool [programs, ...]: the lanes of programs of which all active ones lie in the tensor's buffer, of tensor or guard: where one does
    not, what an access adds to slices is not followed."""
    offsets = area.offsets(pointers)
    stray = mask & ((offsets < 0) | (offsets > area.size - width))
    whole = ~stray.reshape(len(mask), -1).any(axis=1)
    return np.broadcast_to(whole.reshape(-1, *(1,) * (mask.ndim - 1)), mask.shape)


class _UnknownAnswer:
    """What an atomic gives back: it tells which programs came before, and so whatever reads it has to be judged."""

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize

    def _asked(self, *_: Any, **__: Any) -> Any:
        raise NeedsOneByOne("what an atomic gave back")

    __array__ = __array_ufunc__ = __array_function__ = __getattr__ = __getitem__ = __bool__ = __len__ = _asked


def _program_id(self: Any, axis: int) -> Any:
    return TensorHandle(self.grid_idx[axis], tl.int32)


def _is_truthy(original: Any) -> Any:
    """Triton asks by this whether it was given a tensor; conditions of the kernel ask control_flow."""
    return lambda tensor: True if isinstance(tensor.handle.data, PerProgram) else original(tensor)
