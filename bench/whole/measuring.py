"""How are whole models timed? In rounds that go through all contestants and back, by CUDA events, against the first of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from grader.judging.ratios import Ratio, ratio
from grader.timing.rounds import Contestant, Pair, Timings, check_against_wall_clock, timed_replay
from grader.timing.telemetry import Monitor


@dataclass(frozen=True)
class Spans:
    """Milliseconds of one contestant, two a round: on the way out and on the way back."""

    pairs: tuple[Pair, ...]

    @property
    def all_ms(self) -> list[float]:
        """Every replay."""
        return [span for pair in self.pairs for span in pair]

    @property
    def median_ms(self) -> float:
        """The median replay."""
        return median(self.all_ms)

    def faster_than(self, baseline: Spans) -> Ratio:
        """Time of the baseline by this one's, in the same rounds: median and 99 % interval."""
        return ratio(Timings(self.pairs, baseline.pairs).log_ratios)


class Called:
    """A contestant that is a function, launched anew each time; for what runs long enough that launching does not show."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def prepare(self) -> None:
        """Nothing: what ran before has left little in L2 of what a whole model reads."""

    def replay(self) -> None:
        self._call()

    def inspect(self) -> None:
        torch.cuda.synchronize()


def interleaved(contestants: Sequence[Contestant], rounds: int, watch: Monitor | None = None) -> list[Spans]:
    """Times all contestants, in order and then in reverse, `rounds` times: A B C C B A. Raises ClockFault, see `race`."""
    found: list[list[Pair]] = [[] for _ in contestants]
    for _ in range(rounds):
        began = time.perf_counter()
        events = []
        for one in [*contestants, *reversed(contestants)]:
            one.prepare()
            events.append(timed_replay(one))
            one.inspect()
        if watch:
            watch.sample()
        torch.cuda.synchronize()
        wall_ms = 1e3 * (time.perf_counter() - began)
        spans = [start.elapsed_time(end) for start, end in events]
        check_against_wall_clock(spans, wall_ms)
        for number, pairs in enumerate(found):
            pairs.append((spans[number], spans[-1 - number]))
    return [Spans(tuple(pairs)) for pairs in found]


def allocated() -> int:
    """Bytes of device memory in use, what is only kept for later left out."""
    gc.collect()
    torch.cuda.synchronize()
    return int(torch.cuda.memory_allocated())


def peak_bytes(call: Callable[[], object], others: int) -> int:
    """The most bytes allocated during a call, less `others`, which were there for other contestants."""
    allocated()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - others
