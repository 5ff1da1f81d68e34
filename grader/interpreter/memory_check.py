"""Does every load, store and atomic of an interpreted kernel touch an element of a tensor? And only its own program's?
Does what the kernel promises the compiler hold?

While a `MemoryCheck` is active each tensor lives in an address window of its own, 64 PiB wide, so that an address
tells which pointer argument it was derived from however far it strays. The four functions through which every
version of Triton's interpreter reaches memory translate the addresses back and check them on the way.

What a load brings from outside is poison, the same each time; when it is asked for, so is what a mask without `other` leaves out:
Triton leaves that undefined, and its compiler for NVIDIA's GPUs happens to leave zeros. A launch that a number from outside leads
astray (an index or a bound of a loop) is ended there, and keeps what was found.
"""

from __future__ import annotations

import signal
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import monotonic, process_time
from typing import Any

import numpy as np
from triton.runtime import interpreter

from grader.interpreter import strays
from grader.interpreter.areas import WINDOW_BITS, Area, area_of
from grader.interpreter.control_flow import LaunchEvents
from grader.interpreter.faults import LaunchEnded
from grader.interpreter.launch_findings import Findings
from grader.interpreter.memory_access import MemoryAccess, is_misaligned
from grader.interpreter.native_memory import NativeMemory, atomic_rmw, poison
from grader.interpreter.program_loop import replaced
from grader.interpreter.races import WITHIN_A_PROGRAM, Races, too_far_apart
from grader.interpreter.split_k import Contributions

EXTRA_TIME_FACTOR = 4
SLOW = "if no loop of it runs for ever, give each program a larger tile, or grade on a GPU"
FEWEST_PROGRAMS = 8
"""Fewer programs than that say nothing about how long the others take."""

MISLED_ITERATIONS = 50_000
"""Iterations of loops after which a launch that took a number from outside its tensors is given up."""
PAUSE = 0.1
"""Seconds of CPU time between two checks of the clock, whatever the launch is doing then: a kernel may go on and on without an
access or an iteration of a loop."""
WALL_FACTOR = 4
"""How much longer than its CPU time a launch may take on a busy machine: it is ended here, with what was found, not from outside."""


class MemoryCheck:
    """Watches one launch. `path` is the file of the student's module, whose line numbers the findings carry.

    seconds: CPU time that the launch may take; after that, and where it is led astray, it is ended with LaunchEnded.
    programs: how many the grid has. A launch whose programs end one after another, so many that the others will have ended
    in EXTRA_TIME_FACTOR times the seconds, is given that: many small programs are no endless loop.
    since: CPU time at which the launch began, if it was tried otherwise before: EXTRA_TIME_FACTOR times the seconds are for both.
    contributions: what programs add to Y, where that is asked for. on_access: is told of each access before it is checked.
    misled: the tensor beside which an index or bound was read, once one was.
    poison_masked: what a load's mask leaves out is poison where the load has no `other`.
    """

    def __init__(
        self,
        areas: Sequence[Area],
        path: str,
        seconds: float | None = None,
        programs: int = 1,
        poison_masked: bool = False,
    ) -> None:
        self.areas, self.path, self.seconds, self.programs = list(areas), path, seconds, programs
        self.poison_masked = poison_masked
        self.ended, self.longer = 0, False
        self.since: float | None = None
        self.misled: str | None = None
        self.iterations = 0
        self.deadline = self.end = self.last = float("inf")
        self.out_of_time: LaunchEnded | None = None
        self.found = Findings(path)
        self.races = Races(self.found)
        self.touched: dict[str, Area] = {}
        self.contributions: Contributions | None = None
        self.on_access: Callable[[MemoryAccess], None] | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Replaces the interpreter's memory functions, and sets the clock."""
        with ExitStack() as stack:
            for owner, name, function in self.replacements():
                stack.enter_context(replaced(owner, name, function))
            self._set_clock()
            try:
                yield
            finally:
                signal.signal(signal.SIGPROF, signal.SIG_IGN)
                signal.setitimer(signal.ITIMER_PROF, 0)

    def replacements(self) -> list[tuple[Any, str, Any]]:
        """What stands in the place of an owner's attribute of that name while the launch runs."""
        builder = interpreter.InterpreterBuilder
        load = _poisoning(builder.create_masked_load) if self.poison_masked else builder.create_masked_load
        return [
            (interpreter, "_interpreter", self.watched(interpreter._interpreter)),
            (builder, "create_masked_load", load),
            (LaunchEvents, "iteration", self._iteration),
            (LaunchEvents, "before", self._before_loop),
            (LaunchEvents, "barrier", self.barrier),
            (LaunchEvents, "broken", self._broken),
        ]

    def _broken(self, kind: str, promised: int, seen: tuple[int, ...]) -> None:
        """The compiler was promised what is not so."""
        self.found.add(
            (kind, promised),
            {"kind": "promise", "fault": kind, "index": list(seen), "offset": promised, "lanes": 1, "differs": True},
        )

    def watched(self, memory: Any) -> NativeMemory:
        """What stands in front of Triton's native functions."""
        return _Watched(memory, self)

    def _set_clock(self) -> None:
        if self.seconds is None:
            return
        begun = process_time()
        self.last = (begun if self.since is None else self.since) + EXTRA_TIME_FACTOR * self.seconds
        self.deadline, self.end = min(begun + self.seconds, self.last), monotonic() + WALL_FACTOR * self.seconds
        signal.signal(signal.SIGPROF, lambda number, frame: self._in_time())
        signal.setitimer(signal.ITIMER_PROF, PAUSE, PAUSE)

    def _before_loop(self, iterations: int) -> None:
        """A loop of so many iterations begins."""
        if self.misled is not None and iterations > MISLED_ITERATIONS:
            raise LaunchEnded(
                "memory", f"a loop of {iterations} iterations began after a number was read outside {self.misled}"
            )

    def _iteration(self) -> None:
        """An iteration of a loop begins."""
        self.iterations += 1
        if self.misled is not None and self.iterations > MISLED_ITERATIONS:
            raise LaunchEnded("memory", f"a loop kept running after a number was read outside {self.misled}")

    def _in_time(self) -> None:
        if process_time() <= self.deadline and monotonic() <= self.end:
            return
        assert self.seconds is not None
        if FEWEST_PROGRAMS <= self.ended < self.programs <= EXTRA_TIME_FACTOR * self.ended and not self.longer:
            self.longer, self.deadline = True, self.last
            self.end += (EXTRA_TIME_FACTOR - 1) * WALL_FACTOR * self.seconds
            return
        spent = self.seconds * (EXTRA_TIME_FACTOR if self.longer else 1)
        among = (
            f", when {self.ended} of its {self.programs} programs had ended" if self.ended >= FEWEST_PROGRAMS else ""
        )
        self.out_of_time = LaunchEnded("time", f"did not finish within {spent:.0f} s on the interpreter{among}; {SLOW}")
        raise self.out_of_time

    def barrier(self) -> None:
        """The program that runs is at one."""
        self.races.threads.barrier()

    def findings(self) -> list[dict[str, Any]]:
        """What was found, as JSON: one entry for each line, tensor and fault."""
        for area in self.areas:
            if too_far_apart(area):
                self.found.settle(area.name)
        return self.found.listed()

    def strayed(self) -> list[str]:
        """Tensors beside which a store went so far that it was left out, and inputs that were changed, put back or not."""
        return [area.name for area in self.areas if area.strayed]

    def additions(self) -> int:
        """How many times an atomic added to an element of the outputs: half of those to which one did were added to as often or less.

        Zeros do not count: adding them rounds nothing.
        """
        counts = [area.added[area.valid & (area.added > 0)] for area in self.areas if area.added is not None]
        return max((int(np.sort(count)[(len(count) - 1) // 2]) for count in counts if len(count)), default=0)

    def check_inputs(self) -> None:
        """What an access has changed of an input, other programs may read before it is put back."""
        for area in self.touched.values():
            area.strayed |= zlib.crc32(area.buffer) != area.arrived
        self.touched.clear()

    def written(self) -> bool:
        """Whether each element of the tensor that arrived as poison was stored to or added to."""
        return all(
            area.writer is not None and bool(area.writer[area.valid].all()) for area in self.areas if area.poisoned
        )

    def check(self, access: MemoryAccess) -> tuple[Any, Any, Any]:
        """Checks the active lanes of one access.

        Returns the real addresses, the mask of lanes that may go on, and the lanes that were taken out (None: none).
        """
        self.ended = access.program
        if not access.active.size:
            return access.pointers, access.mask, None
        if self.on_access is not None:
            self.on_access(access)
        area, between = area_of(access.active, self.areas)
        if is_misaligned(access.active, access.width):
            what = f"{'an' if access.kind == 'atomic' else 'a'} {access.kind} of {access.width} bytes"
            where = f"an address{f' of {area.name}' if area else ''} that is not a multiple of {access.width}, at which a GPU faults"
            raise LaunchEnded(
                "undefined", f"{what} at {where}; access fewer bytes at once where offsets or strides are odd"
            )
        if area is None:
            return self._check_each_window(access)
        if access.kind != "load" and not area.output:
            self.touched[area.name] = area
        if not (between and area.dense and access.width == area.width):
            stray = self._strays(access, area)
            if stray is not None:
                real = np.where(stray, np.uint64(area.base), access.pointers) + np.uint64(area.shift)
                return real, access.mask & ~stray, stray
        if self.contributions and access.kind == "load":
            self.contributions.load(area, area.elements(access.active).reshape(-1), access.program)
        if access.kind != "load" or area.writer is not None or area.output:
            access.reach(area)
            self.races.follow(access, self.contributions)
        return access.pointers + np.uint64(area.shift), access.mask, None

    def _strays(self, access: MemoryAccess, area: Area) -> np.ndarray | None:
        """Reports lanes that lie in no element of the tensor; those among them that lie outside its buffer, None where there are none."""
        good, mask = area.good(access.active, access.width), access.mask
        if good.all():
            return None
        bad = np.zeros(mask.shape, dtype=bool)
        bad[mask] = ~good.reshape(-1)
        every = access.pointers[None], mask[None], bad[None]
        strays.report(self.found, access.kind, area, *every, [self.found.moment], self.misled)
        offsets = area.offsets(access.active)
        reachable = (offsets >= 0) & (offsets <= area.size - access.width)
        if reachable.all():
            return None
        area.strayed |= access.kind != "load"
        self._end_if_misled(area.name)
        stray = np.zeros(mask.shape, dtype=bool)
        stray[mask] = ~reachable.reshape(-1)
        return stray

    def _check_each_window(self, access: MemoryAccess) -> tuple[Any, Any, Any]:
        """An access whose lanes point into several tensors, or into none: window by window."""
        pointers, mask, kind = access.pointers, access.mask, access.kind
        real, stray, shared = np.zeros_like(pointers), mask.copy(), np.zeros(pointers.shape, dtype=bool)
        window = (pointers >> np.uint64(WINDOW_BITS)).astype(np.int64) - 1
        for number in np.unique(window[mask]):
            part = replace(access, mask=mask & (window == number))
            if 0 <= number < len(self.areas):
                found, allowed, _ = self.check(part)
                real[part.mask] = found[part.mask]
                shared |= part.shared if part.shared is not None else False
                stray &= ~(allowed & part.mask)
            else:
                wild = {"kind": kind, "fault": "wild", "lanes": int(part.mask.sum()), "misled": self.misled}
                self.found.add((kind, None), wild)
                self._end_if_misled("all tensors")
                raise LaunchEnded("memory", "used an address outside every tensor")
        access.shared = shared if shared.any() else None
        safe = np.uint64((self.areas[0].base + self.areas[0].shift) % 2**64)
        return np.where(stray | ~mask, safe, real), mask & ~stray, stray

    def _end_if_misled(self, where: str) -> None:
        """Ends a launch that went far outside `where`, if a number from outside its tensors led it there."""
        if self.misled is not None:
            raise LaunchEnded(
                "memory", f"accessed memory far outside {where} after a number was read outside {self.misled}"
            )


def _poisoning(load: Any) -> Any:
    """The builder's masked load, in which lanes that are left out are poison where no `other` says what they are."""

    def create_masked_load(self: Any, pointers: Any, mask: Any, other: Any, *policy: Any) -> Any:
        if other is None:
            element = pointers.get_element_ty()
            dtype = np.dtype(interpreter._get_np_dtype(element))
            other = interpreter.TensorHandle(np.full(pointers.data.shape, poison(dtype), dtype=dtype), element)
        return load(self, pointers, mask, other, *policy)

    return create_masked_load


def is_index(dtype: Any, pointers: Any) -> bool:
    """Whether a load can bring numbers that say where to go on: whole ones of at least 32 bits, not a tile of them."""
    return np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize >= 4 and np.ndim(pointers) < 2


def _unknown(before: np.ndarray, shared: np.ndarray | None) -> np.ndarray:
    """What an atomic gives back, poisoned where it tells which programs came before: on a GPU those are others each time."""
    if shared is not None and shared.any():
        before[shared] = poison(before.dtype)
    return before


class _Watched(NativeMemory):
    """Triton's native memory functions, with a check of every access before it happens."""

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        width, known = np.dtype(dtype).itemsize, len(self._check.found)
        real, allowed, stray = self._check.check(MemoryAccess("load", self._program(), pointers, mask, width))
        loaded = self._load(real, allowed, other, dtype, stray)
        if len(self._check.found) != known and self._check.misled is None and is_index(dtype, pointers):
            self._check.misled = self._check.found.last_tensor() or "its tensors"
            self._check.iterations = 0
        return loaded

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        values = np.asarray(values)
        access = MemoryAccess("store", self._program(), pointers, mask, values.itemsize, values)
        real, allowed, _ = self._check.check(access)
        stored = self._memory.store(real, values, allowed)
        self._check.check_inputs()
        return stored

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        values = np.asarray(values)
        name = f"{operation.name}{WITHIN_A_PROGRAM if self._within_a_program() else ''}"
        access = MemoryAccess("atomic", self._program(), pointers, mask, values.itemsize, values, name)
        real, allowed, _ = self._check.check(access)
        before = _unknown(atomic_rmw(self._memory, operation, real, values, allowed, order), access.shared)
        self._check.check_inputs()
        return before

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        values = np.asarray(values)
        access = MemoryAccess("atomic", self._program(), pointers, True, values.itemsize, values, "CAS")
        real, allowed, _ = self._check.check(access)
        if not allowed.all():
            return values
        before = _unknown(self._memory.atomic_cas(real, expected, values, order), access.shared)
        self._check.check_inputs()
        return before
