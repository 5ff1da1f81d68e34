"""A B B A rounds of two contestants: event times of every replay, checked against the host's clock."""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import torch

from grader.judging.ratios import ratio
from grader.timing.telemetry import Monitor

Pair = tuple[float, float]

FIRST_ROUNDS = 12
ROUNDS = 45
EXTRA_ROUNDS = 135
NEAR = 0.03
"""A race ends after its first rounds unless a tier boundary is this close to the interval of the ratio."""

WALL_TOLERANCE = 1.02
WALL_SLACK_MS = 0.05
NVML_EVERY = 5
"""NVML is read once in so many rounds, while the GPU is busy with the round."""


class ClockFault(RuntimeError):
    """The GPU's event times contradict the host's clock; no time of this GPU can be trusted."""


@dataclass(frozen=True)
class Timings:
    """Milliseconds of each replay, for rounds A1 B1 B2 A2. a: (A1, A2) of each round. b: (B1, B2)."""

    a: tuple[Pair, ...]
    b: tuple[Pair, ...]

    def __add__(self, other: Timings) -> Timings:
        return Timings(self.a + other.a, self.b + other.b)

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """For each round, log((B1 + B2) / (A1 + A2))."""
        return tuple(math.log((b1 + b2) / (a1 + a2)) for (a1, a2), (b1, b2) in zip(self.a, self.b, strict=True))

    @property
    def a_ms(self) -> float:
        """Median of the replays of A."""
        return median(time_ms for pair in self.a for time_ms in pair)

    @property
    def b_ms(self) -> float:
        """Median of the replays of B."""
        return median(time_ms for pair in self.b for time_ms in pair)


def capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Captures what `work` launches in a graph; `work` runs once before, so that lazy initialisation is not captured.

    torch.cuda.graph does the same, but returns all unused memory to the driver each time, which takes longer.
    """
    side = side_stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        work()
        torch.cuda.synchronize()
        with recording(graph):
            work()
    return graph


@contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any = None) -> Iterator[None]:
    """Captures what is launched on the current stream in a graph, whose memory comes from the pool with this id.

    Garbage collection is off meanwhile: PyTorch's allocator aborts the process if a memory pool is freed during a capture.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        graph.capture_begin(pool=pool)
        try:
            yield
        finally:
            graph.capture_end()
    finally:
        if collects:
            gc.enable()


@functools.cache
def side_stream() -> torch.cuda.Stream:
    """The one stream of all captures, because cuBLAS keeps a workspace for each stream that it was called on."""
    return torch.cuda.Stream()


def timed_replay(one: Contestant | torch.cuda.CUDAGraph) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Replays between two events; read their elapsed time after a synchronisation."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.current_stream(torch.cuda.current_device())
    start.record(stream)
    one.replay()
    end.record(stream)
    return start, end


class Contestant(Protocol):
    """One of the two in a race. Only `replay` is timed."""

    def prepare(self) -> None:
        """Queues the work before a replay; the last of it keeps the GPU busy until the replay is queued."""

    def replay(self) -> None:
        """Queues what is timed."""

    def inspect(self) -> None:
        """Inspects what a replay left behind."""


@dataclass(frozen=True)
class Captured:
    """A contestant that always replays the same graph, after the graph `before`."""

    graph: torch.cuda.CUDAGraph
    before: torch.cuda.CUDAGraph

    def prepare(self) -> None:
        self.before.replay()

    def replay(self) -> None:
        self.graph.replay()

    def inspect(self) -> None:
        """Waits, so that every replay of a round begins on an idle GPU."""
        torch.cuda.synchronize()


def race(
    a: Contestant, b: Contestant, rounds: int, watch: Monitor | None = None, between: Callable[[], None] = lambda: None
) -> Timings:
    """Times `a` and `b` in A B B A rounds; `between` is called before each round.

    A round is repeated, `rounds` times at most, if the GPU began a replay before the host had queued all of it: then its time may include
    waiting for a busy host. Raises ClockFault if the events of a round add up to more time than passed on the host.
    """
    pairs_a: list[Pair] = []
    pairs_b: list[Pair] = []
    repeated = 0
    while len(pairs_a) < rounds:
        between()
        events, late = [], False
        began = time.perf_counter()
        for one in (a, b, b, a):
            one.prepare()
            start, end = timed_replay(one)
            late = start.query() or late
            events.append((start, end))
            one.inspect()
        if watch and (len(pairs_a) + repeated) % NVML_EVERY == 0:
            watch.sample()
        torch.cuda.synchronize()
        wall_ms = 1e3 * (time.perf_counter() - began)
        a1, b1, b2, a2 = (start.elapsed_time(end) for start, end in events)
        check_against_wall_clock((a1, b1, b2, a2), wall_ms)
        if late and repeated < rounds:
            repeated += 1
            continue
        pairs_a.append((a1, a2))
        pairs_b.append((b1, b2))
    return Timings(tuple(pairs_a), tuple(pairs_b))


def rounds_to_go(log_ratios: Sequence[float], boundaries: Sequence[float]) -> int:
    """How many more rounds to time, given the ratios of those done; 0 if the tier is certain enough.

    Without boundaries there are no tiers, and a race takes ROUNDS rounds.
    """
    done = len(log_ratios)
    if done == 0:
        return FIRST_ROUNDS
    measured = ratio(log_ratios)
    if done < ROUNDS:
        return ROUNDS - done if not boundaries or measured.near(boundaries, NEAR) else 0
    return EXTRA_ROUNDS if done == ROUNDS and measured.near(boundaries) else 0


def check_against_wall_clock(spans_ms: Sequence[float], wall_ms: float) -> None:
    """Raises ClockFault for spans that are not valid times, or that add up to more than the wall-clock time around them."""
    if not all(math.isfinite(span) and span > 0 for span in spans_ms):
        raise ClockFault(
            f"an event time of {min(spans_ms)} ms is not a valid time; restart the GPU's process and grade again"
        )
    if sum(spans_ms) > WALL_TOLERANCE * wall_ms + WALL_SLACK_MS:
        raise ClockFault(
            f"the events of one round add up to {sum(spans_ms):.3f} ms, the host saw {wall_ms:.3f} ms pass; "
            "this GPU's event clock cannot be trusted, so speed is not graded"
        )
