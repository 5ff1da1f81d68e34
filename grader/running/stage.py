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

from grader.checking import Finding, compare
from grader.labs import Lab
from grader.labs.projection import Stack
from grader.model import Case, Problem
from grader.problems import generator_for
from grader.running.arena import Arena, Layout, Places, poison
from grader.running.desk import Desk
from grader.running.freivalds import COLUMNS, fit, random_signs

CHUNK_BYTES = 192 << 20
"""Inputs of so many bytes are made and compared at a time, which bounds the desk."""

OTHERS = "a launch wrote into the output of another launch; it was given its own y_ptr only"
MISFIT = "the output does not fit its inputs"


@dataclass(frozen=True)
class Draw:
    """One set of inputs and places. `rare`: with the traps that would change the time of a launch."""

    seed: int
    places: Places
    rare: bool


@dataclass(frozen=True)
class Evidence:
    """What was seen after one run. fault: "" or a sentence, MISFIT when an output is wrong.

    launch: the worst one. share: how much of its bound the worst row used. mean_square: see freivalds.py.
    outputs: fp16 [launches, M, N] on the host, when asked for or when an output is wrong.
    """

    fault: str
    launch: int
    share: float
    mean_square: float
    outputs: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen of one run, still on the GPU: numbers in the order of `Stage.look`, and a copy of all outputs."""

    draw: Draw
    ran: Collection[int]
    numbers: torch.Tensor
    y: torch.Tensor


class Stage:
    """Memory, inputs and checks of one speed case."""

    def __init__(self, lab: Lab, case: Case, desk: Desk, device: torch.device) -> None:
        self.lab, self.case, self.desk, self.device = lab, case, desk, device
        with desk.use():
            one = self._make(0, range(1), rare=False)
            layouts = {name: Layout.of(tensor[0]) for name, tensor in one.items()}
        del one
        layouts[lab.output] = Layout((case.M, case.N), (case.N, 1), torch.float16)
        self.arena = Arena(layouts, case.launches, device)
        self.inputs = [name for name in layouts if name != lab.output]
        size = sum(layouts[name].bytes for name in self.inputs)
        step = max(1, min(case.launches, CHUNK_BYTES // max(1, size)))
        self.chunks = [range(start, min(start + step, case.launches)) for start in range(0, case.launches, step)]

    def _make(self, seed: int, launches: range, rare: bool) -> Stack:
        generator = generator_for(seed, self.lab.id, self.case.name, launches.start, device=self.device)
        return self.lab.timed_inputs(self.case, generator, self.device, len(launches), rare)

    def renew(self, rare: bool = False) -> Draw:
        """New inputs in new places; the outputs are poison already. Keeps nothing that tells of the draw but the draw."""
        draw = Draw(secrets.randbits(64), self.arena.draw(), rare)
        places = {name: self.arena.words(draw.places, name) for name in self.inputs}
        with self.desk.use():
            for chunk in self.chunks:
                stack = self._make(draw.seed, chunk, rare)
                for name, tensor in stack.items():
                    places[name][chunk.start : chunk.stop].copy_(self.arena.layouts[name].words(tensor))
        return draw

    def pointers(self, draw: Draw, launch: int) -> dict[str, int]:
        """Device addresses of one launch's parameters."""
        return {name: self.arena.address(draw.places, name, launch) for name in self.arena.layouts}

    def inspect(self, draw: Draw, ran: Collection[int], roundings: int, *, keep: bool = False) -> Evidence:
        """Looks at everything, and waits for what was seen. ran: the launches that did run."""
        return self.verdict(self.look(draw, ran, roundings), keep=keep)

    def look(self, draw: Draw, ran: Collection[int], roundings: int) -> Look:
        """Queues the checks of one run, and leaves poison everywhere. What is seen lies on the desk until `verdict`."""
        arena, places = self.arena, draw.places
        with self.desk.use():
            y = arena.tensors(places, self.lab.output).clone()
            generator = generator_for(secrets.randbits(64), device=self.device)
            signs = random_signs(self.case.N, generator, self.device)
            changed, worst, squares = [], [], []
            for chunk in self.chunks:
                stack = self._make(draw.seed, chunk, draw.rare)
                changed.append(torch.stack([self._differs(places, chunk, name, stack[name]) for name in self.inputs]))
                found = fit(y[chunk.start : chunk.stop], self.lab.project(stack, signs), signs, self.case.K, roundings)
                worst.append(found.worst)
                squares.append(found.squares)
                del stack
            written = (y.view(torch.int16) != poison(2)).flatten(1).any(dim=1)
            for name in arena.layouts:
                arena.poison(places, name)
            seen = [
                torch.stack(changed).any(dim=0),
                arena.strayed()[None],
                written,
                torch.cat(worst),
                torch.cat(squares),
            ]
            return Look(draw, ran, torch.cat([part.double() for part in seen]), y)

    def verdict(self, look: Look, *, keep: bool = False) -> Evidence:
        """What a look saw. After this the desk may be wiped."""
        evidence = self._evidence(look.draw, look.ran, look.numbers.tolist())
        if evidence.fault:
            self.arena.clear()
        return replace(evidence, outputs=look.y.cpu()) if keep or evidence.fault == MISFIT else evidence

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
            fault = f"the kernel wrote outside {self.arena.owner(draw.places)}; mask its stores"
        elif any(written[one] for one in range(launches) if one not in ran):
            fault = OTHERS
        elif not shares[launch] <= 1:
            fault = MISFIT
        return Evidence(fault, launch, shares[launch], mean)

    def problem(self, draw: Draw, launch: int) -> Problem:
        """One launch's inputs, made once more from the seed. For when the kernel is unloaded."""
        chunk = next(chunk for chunk in self.chunks if launch in chunk)
        return self.lab.stacked_problem(self.case, self._make(draw.seed, chunk, draw.rare), launch - chunk.start)

    def check(self, draw: Draw, launch: int, y: torch.Tensor, roundings: int) -> Finding:
        """One output in full, against fp64. For when the kernel is unloaded."""
        return compare(y.to(self.device), self.lab.reference(self.problem(draw, launch), roundings))
