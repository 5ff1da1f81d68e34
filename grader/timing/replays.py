"""What happens before and after every run of a student's launches: all is new before, and all is looked at after.

Before: a seed from the operating system, new places and a new order (arena.py), and inputs from that seed, made where the
judge computes and copied to their places. The outputs are poison. The seed stays on the host: nothing that a result is
judged by is in device memory while the kernel could run.
After: inputs are made once more from the seed and compared bit by bit; every output is compared with products of these
inputs and random signs drawn now (freivalds.py); outputs of launches that did not run, and everything beside the tensors,
must still be poison. What was seen goes to the host as numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from grader.gpu.arena import Arena, Layout, Places, poison
from grader.gpu.memory_pool import MemoryPool
from grader.judging.checking import Finding, compare
from grader.labs import Lab
from grader.labs.problems import generator_for
from grader.labs.projection import Stack
from grader.model import Case, Problem
from grader.timing.freivalds import COLUMNS, fit, random_signs
from grader.timing.recorder import GraphRecorder, Recorded

CHUNK_BYTES = 192 << 20
"""Inputs of so many bytes are made and compared at a time, which bounds the pool."""

OTHERS = "a launch wrote into the output of another launch; it was given its own y_ptr only"
MISFIT = "the output does not fit its inputs"


@dataclass(frozen=True)
class Draw:
    """One set of inputs and places. `rare`: with the traps that would change the time of a launch."""

    seed: int
    places: Places
    rare: bool

    def seed_of(self, chunk: range) -> int:
        """The seed of a chunk of launches."""
        return generator_for(self.seed, chunk.start).initial_seed()


@dataclass(frozen=True)
class Evidence:
    """What was seen after one run of a draw. fault: "" or a sentence, MISFIT when an output is wrong.

    launch: the worst one. share: how much of its bound the worst row used. mean_square: see freivalds.py.
    outputs: fp16 [launches, M, N] on the host, when asked for or when an output is wrong; they hold until others are kept.
    """

    draw: Draw
    fault: str
    launch: int
    share: float
    mean_square: float
    outputs: torch.Tensor | None = None


@dataclass(frozen=True)
class PendingCheck:
    """A run whose checks are under way."""

    draw: Draw
    ran: Collection[int]


class Stage:
    """Memory, inputs and checks of one speed case."""

    def __init__(self, lab: Lab, case: Case, device: torch.device) -> None:
        self.lab, self.case, self.device = lab, case, device
        self.pool = MemoryPool(device)
        self.recorder = GraphRecorder(device)
        with self.pool.use():
            seed = torch.Generator(device=device)
            layouts = {name: Layout.of(one[0]) for name, one in lab.timed_inputs(case, seed, device, 1, False).items()}
        layouts[lab.output] = Layout((case.M, case.N), (case.N, 1), torch.float16)
        self.arena = Arena(layouts, case.launches, device)
        self.inputs = [name for name in layouts if name != lab.output]
        size = sum(layouts[name].bytes for name in self.inputs)
        step = max(1, min(case.launches, CHUNK_BYTES // max(1, size)))
        self.chunks = [range(start, min(start + step, case.launches)) for start in range(0, case.launches, step)]
        self.y = torch.zeros(case.launches, case.M, case.N, dtype=torch.float16, device=device)
        self.roundings = torch.ones(1, device=device)
        self.signs = torch.zeros(case.N, COLUMNS, device=device)
        self.numbers = torch.zeros(len(self.inputs) + 1 + 3 * case.launches, dtype=torch.float64, device=device)
        self._parts: dict[tuple[int, bool], _Part] = {}

    def _part(self, chunk: range, rare: bool) -> _Part:
        """How a chunk is made and checked, recorded when it is first needed."""
        key = (chunk.start, rare)
        if key not in self._parts:
            self._parts[key] = _Part(self, chunk, rare)
        return self._parts[key]

    def renew(self, rare: bool = False) -> Draw:
        """New inputs in new places; the outputs are poison already. Keeps nothing that tells of the draw but the draw."""
        rare = rare and self.lab.rare_inputs
        draw = Draw(secrets.randbits(64), self.arena.draw(), rare)
        places = {name: self.arena.words(draw.places, name) for name in self.inputs}
        for chunk in self.chunks:
            for name, tensor in self._part(chunk, rare).make(draw.seed_of(chunk)).items():
                places[name][chunk.start : chunk.stop].copy_(self.arena.layouts[name].words(tensor))
        self.recorder.forget()
        return draw

    def close(self) -> None:
        """Gives up what was recorded, whose memory would else wait for the garbage collector."""
        self._parts.clear()
        self.pool.close()
        self.recorder.pool.close()

    def wipe(self) -> None:
        """Overwrites all that the judge computed with. Not before the last check is finished."""
        self.wipe_pools()
        for tensor in (self.y, self.signs, self.numbers):
            tensor.zero_()

    def wipe_pools(self) -> None:
        """overwrites what is in the pools; the numbers of the last check are not."""
        self.pool.wipe()
        self.recorder.pool.wipe()

    def pointers(self, draw: Draw, launch: int) -> dict[str, int]:
        """Device addresses of one launch's parameters."""
        return {name: self.arena.address(draw.places, name, launch) for name in self.arena.layouts}

    def inspect(self, draw: Draw, ran: Collection[int], roundings: int) -> Evidence:
        """Checks everything, and waits for the result. ran: the launches that did run."""
        return self.finish_check(self.start_check(draw, ran, roundings))

    def start_check(self, draw: Draw, ran: Collection[int], roundings: int) -> PendingCheck:
        """Queues the checks of one run, and leaves poison everywhere. One check at a time: the next starts after finish_check."""
        arena, places = self.arena, draw.places
        parts = [self._part(chunk, draw.rare) for chunk in self.chunks]
        self.roundings.fill_(roundings)
        with self.pool.use():
            self.y.copy_(arena.tensors(places, self.lab.output))
            self.signs.copy_(
                random_signs(self.case.N, generator_for(secrets.randbits(64), device=self.device), self.device)
            )
            changed, fits = [], []
            for chunk, part in zip(self.chunks, parts, strict=True):
                stack = part.make(draw.seed_of(chunk))
                changed.append(torch.stack([self._differs(places, chunk, name, stack[name]) for name in self.inputs]))
                fits.append(part.check(0).clone())
            for name in arena.layouts:
                arena.poison(places, name)
            flags = torch.cat([torch.stack(changed).any(dim=0), arena.strayed()[None]])
            self.numbers.copy_(torch.cat([flags.double(), torch.cat(fits, dim=1).flatten()]))
        return PendingCheck(draw, ran)

    def finish_check(self, pending: PendingCheck, *, keep: bool = False) -> Evidence:
        """What the pending check saw."""
        evidence = self._evidence(pending.draw, pending.ran, self.numbers.tolist())
        if evidence.fault:
            self.arena.clear()
        return replace(evidence, outputs=_on_host(self.y)) if keep or evidence.fault == MISFIT else evidence

    def _differs(self, places: Places, chunk: range, name: str, right: torch.Tensor) -> torch.Tensor:
        return (self.arena.words(places, name)[chunk.start : chunk.stop] != self.arena.layouts[name].words(right)).any()

    def _evidence(self, draw: Draw, ran: Collection[int], numbers: list[float]) -> Evidence:
        inputs, launches = len(self.inputs), self.case.launches
        changed, strayed = numbers[:inputs], numbers[inputs]
        written, worst, squares = (
            numbers[inputs + 1 + place * launches : inputs + 1 + (place + 1) * launches] for place in range(3)
        )
        shares = {launch: worst[launch] if worst[launch] == worst[launch] else float("inf") for launch in ran}
        launch = max(shares, key=lambda one: shares[one])
        mean = sum(squares[one] for one in ran) / (len(ran) * self.case.M * COLUMNS)
        fault = ""
        if any(changed):
            fault = f"the kernel changed its input {self.inputs[changed.index(1.0)]}"
        elif strayed:
            fault = f"the kernel wrote outside {self.arena.owner(draw.places)}; check its addresses and masks"
        elif any(written[one] for one in range(launches) if one not in ran):
            fault = OTHERS
        elif not shares[launch] <= 1:
            fault = MISFIT
        return Evidence(draw, fault, launch, shares[launch], mean)

    def problem(self, draw: Draw, launch: int) -> Problem:
        """One launch's inputs, made once more from the seed; they hold until more are made. For when no kernel is loaded."""
        chunk = next(chunk for chunk in self.chunks if launch in chunk)
        stack = self._part(chunk, draw.rare).make(draw.seed_of(chunk))
        return self.lab.stacked_problem(self.case, stack, launch - chunk.start)

    def check(self, draw: Draw, launch: int, y: torch.Tensor, roundings: int) -> Finding:
        """One output in full, against fp64. For when the kernel is unloaded."""
        return compare(y.to(self.device), self.lab.reference(self.problem(draw, launch), roundings))


def _on_host(y: torch.Tensor) -> torch.Tensor:
    """A copy that holds until the next one is made: new pages each time would cost more than the transfer."""
    global _host
    if _host.numel() < y.numel():
        _host = torch.empty(y.numel(), dtype=y.dtype)
    return _host[: y.numel()].view(y.shape).copy_(y)


_host = torch.empty(0, dtype=torch.float16)


class _Part:
    """A chunk of launches: its inputs from a seed, and numbers about its outputs, float64 [3, launches of the chunk].

    The numbers are whether an output was written, the worst row's share of its bound, and the sum of squares; the
    outputs are those in `Stage.y`, the inputs those that were made last.
    """

    def __init__(self, stage: Stage, chunk: range, rare: bool) -> None:
        lab, case, recorder = stage.lab, stage.case, stage.recorder
        make: Recorded[Stack] = Recorded(
            recorder, lambda: lab.timed_inputs(case, recorder.generator, stage.device, len(chunk), rare)
        )
        y = stage.y[chunk.start : chunk.stop]

        def check() -> torch.Tensor:
            found = fit(y, lab.project(make.result, stage.signs), stage.signs, case.K, stage.roundings)
            written = (y.view(torch.int16) != poison(2)).flatten(1).any(dim=1)
            return torch.stack([written.double(), found.worst.double(), found.squares.double()])

        self.make, self.check = make, Recorded(recorder, check)
