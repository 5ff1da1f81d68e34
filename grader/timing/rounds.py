"""A B B A rounds of two contestants: event times of every replay, held against the host's clock."""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from grader.judging.ratios import ratio
from grader.timing.telemetry import Monitor

Pair = tuple[float, float]

FIRST_ROUNDS = 12
ROUNDS = 45
EXTRA_ROUNDS = 135
NEAR = 0.03
"""A race ends after its first rounds when no tier boundary is this near to the interval of the ratio."""

WALL_TOLERANCE = 1.02
WALL_SLACK_MS = 0.05
LOOK_EVERY = 5
"""NVML is asked in every fifth round, while the GPU is busy with it."""


class ClockFault(RuntimeError):
    """The GPU's event times contradict the host's clock; no time of this GPU can be trusted."""


@dataclass(frozen=True)
class Timings:
    """Milliseconds of each replay, in rounds A1 B1 B2 A2: `a` holds the (A1, A2), `b` the (B1, B2)."""

    a: tuple[Pair, ...]
    b: tuple[Pair, ...]

    def __add__(self, other: Timings) -> Timings:
        return Timings(self.a + other.a, self.b + other.b)

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """One number a round: log((B1 + B2) / (A1 + A2))."""
        return tuple(math.log((b1 + b2) / (a1 + a2)) for (a1, a2), (b1, b2) in zip(self.a, self.b, strict=True))

    @property
    def a_ms(self) -> float:
        """Median of the replays of A."""
        return median([time_ms for pair in self.a for time_ms in pair])

    @property
    def b_ms(self) -> float:
        """Median of the replays of B."""
        return median([time_ms for pair in self.b for time_ms in pair])


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two. Needs one value or more."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """A graph of what `work` launches; it runs once before, so that lazy set-up stays out.

    torch.cuda.graph does the same, and gives all unused memory back to the driver each time, which takes longer.
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
    """Records what the current stream is given into a graph, whose memory comes from the pool with this id.

    Garbage collection waits: PyTorch's allocator aborts the process when a memory pool is freed during a capture.
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
    """The stream of all captures: one, because cuBLAS keeps memory for each stream that it was called on."""
    return torch.cuda.Stream()


class Replayable(Protocol):
    """What can be timed."""

    def replay(self) -> None: ...


def timed_replay(graph: Replayable) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Replays between two events; ask for their distance after a synchronisation."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.current_stream(torch.cuda.current_device())
    start.record(stream)
    graph.replay()
    end.record(stream)
    return start, end


class Contestant(Protocol):
    """One of the two in a race. Only `replay` is timed."""

    def prepare(self) -> None:
        """Queues what comes before a replay; the last of it keeps the GPU busy while the replay is queued."""

    def replay(self) -> None:
        """Queues what is timed."""

    def inspect(self) -> None:
        """Looks at what a replay left."""


@dataclass(frozen=True)
class Captured:
    """A contestant whose launches are always the same: a graph, and the graph that is replayed before it."""

    graph: torch.cuda.CUDAGraph
    before: torch.cuda.CUDAGraph

    def prepare(self) -> None:
        self.before.replay()

    def replay(self) -> None:
        self.graph.replay()

    def inspect(self) -> None:
        """Waits, so that every replay of a round begins on a GPU that rested."""
        torch.cuda.synchronize()


class Flush:
    """Fills L2 with the lines of a buffer of its own, four times as large, which is rewritten first."""

    def __init__(self) -> None:
        l2_bytes = max(torch.cuda.get_device_properties().L2_cache_size, 32 << 20)
        self._filler = torch.zeros(l2_bytes, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), device="cuda")

    def __call__(self) -> None:
        self._filler.zero_()
        torch.sum(self._filler, dim=0, out=self._sum)


def race(
    a: Contestant, b: Contestant, rounds: int, watch: Monitor | None = None, between: Callable[[], None] = lambda: None
) -> Timings:
    """Times `a` and `b` in A B B A rounds; `between` is called before each round.

    A round is repeated, as often as there are rounds, when the GPU began a replay before the host had queued all of it: the time may hold
    what the GPU waited for a host whose cores were busy. Raises ClockFault when the events of a round claim more time than passed there.
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
        if watch and (len(pairs_a) + repeated) % LOOK_EVERY == 0:
            watch.sample()
        torch.cuda.synchronize()
        wall_ms = 1e3 * (time.perf_counter() - began)
        a1, b1, b2, a2 = (start.elapsed_time(end) for start, end in events)
        hold_against_wall((a1, b1, b2, a2), wall_ms)
        if late and repeated < rounds:
            repeated += 1
            continue
        pairs_a.append((a1, a2))
        pairs_b.append((b1, b2))
    return Timings(tuple(pairs_a), tuple(pairs_b))


def rounds_to_go(log_ratios: Sequence[float], boundaries: Sequence[float]) -> int:
    """How many rounds a race takes next, after those whose ratios are given; 0 when the tier is certain enough.

    Without boundaries there is no tier to be sure of, and it takes ROUNDS.
    """
    done = len(log_ratios)
    if done == 0:
        return FIRST_ROUNDS
    measured = ratio(log_ratios)
    if done < ROUNDS:
        return ROUNDS - done if not boundaries or measured.near(boundaries, NEAR) else 0
    return EXTRA_ROUNDS if done == ROUNDS and measured.near(boundaries) else 0


def hold_against_wall(spans_ms: Sequence[float], wall_ms: float) -> None:
    """Raises ClockFault for spans that are no times, or that together outlast the wall clock around them."""
    if not all(math.isfinite(span) and span > 0 for span in spans_ms):
        raise ClockFault(
            f"an event time of {min(spans_ms)} ms is not a valid time; restart the GPU's process and grade again"
        )
    if sum(spans_ms) > WALL_TOLERANCE * wall_ms + WALL_SLACK_MS:
        raise ClockFault(
            f"the events of one round add up to {sum(spans_ms):.3f} ms, the host saw {wall_ms:.3f} ms pass; "
            "this GPU's event clock cannot be trusted, so speed is not graded"
        )
