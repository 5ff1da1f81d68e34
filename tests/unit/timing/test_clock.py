"""The clock's guards that need no GPU: roofline floor, event times against the wall, what NVML saw."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from grader.gpu.roofline import Peaks, floor, fp16_peak
from grader.timing.rounds import (
    EXTRA_ROUNDS,
    FIRST_ROUNDS,
    ROUNDS,
    ClockFault,
    Timings,
    check_against_wall_clock,
    rounds_to_go,
)
from grader.timing.telemetry import Monitor
from tests.submissions import TESTS

H200 = Peaks(bytes_per_second=4.8e12, fp16_per_second=fp16_peak(90, 132, 1.98e9))


def test_bytes_bind_a_narrow_product():
    least = floor(2 * 4096 + 4096 * 4096 // 2 + 2 * 4096, 2 * 4096 * 4096, "fp16", H200)
    assert least.time_us == least.bytes_us == pytest.approx(1.75, rel=0.01)
    assert "moving the operands" in least.fault(1.0)
    assert least.fault(1.6) == ""


def test_operations_bind_a_square_product_and_int8_is_twice_as_fast():
    half, whole = (floor(3 * 2 * 4096**2, 2 * 4096**3, operand, H200) for operand in ("int8", "fp16"))
    assert half.time_us == half.operations_us == pytest.approx(64.2, rel=0.01)
    assert whole.time_us == pytest.approx(2 * half.time_us)
    assert "the products" in half.fault(50.0)


def test_unknown_peaks_bind_nothing():
    assert fp16_peak(87, 16, 1e9) == 0.0
    assert floor(10**12, 10**15, "int8", Peaks(0.0, 0.0)).fault(1e-3) == ""


def test_spans_within_the_wall_pass():
    check_against_wall_clock((1.0, 1.1, 1.1, 1.0), 4.3)
    check_against_wall_clock((0.01, 0.01, 0.01, 0.01), 0.039)


@pytest.mark.parametrize("spans", [(2.0, 2.0, 2.0, 2.0), (1.0, math.nan, 1.0, 1.0), (1.0, 0.0, 1.0, 1.0)])
def test_spans_that_cannot_be_are_a_fault(spans):
    with pytest.raises(ClockFault):
        check_against_wall_clock(spans, 4.3)


def test_timings_pair_rounds_and_add_up():
    one = Timings(((1.0, 1.0), (2.0, 2.0)), ((2.0, 2.0), (3.0, 3.0)))
    assert one.log_ratios == pytest.approx((math.log(2), math.log(1.5)))
    both = one + Timings(((4.0, 4.0),), ((4.0, 4.0),))
    assert len(both.log_ratios) == 3
    assert both.a_ms == 2.0


def raced(value, boundaries, spread=0.01, seed=0):
    """The ratios of a race whose rounds scatter by `spread`: 1 % is what the noisiest case on record does."""
    chance, logs = np.random.default_rng(seed), []
    while more := rounds_to_go(logs, boundaries):
        logs += list(math.log(value) + chance.normal(0, spread, more))
    return logs


def test_a_race_is_as_long_as_its_tier_is_uncertain():
    assert len(raced(1.1, [0.5, 1.0, 1.3])) == FIRST_ROUNDS
    assert len(raced(1.02, [0.5, 1.0, 1.3])) == ROUNDS
    assert len(raced(1.0, [0.5, 1.0, 1.3])) == ROUNDS + EXTRA_ROUNDS
    assert len(raced(1.1, [])) == ROUNDS


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("value", [0.9, 0.95, 0.97, 0.98, 1.02, 1.03, 1.05, 1.1])
def test_a_race_that_ended_early_has_the_tier_that_it_would_have_had(value, seed):
    middle = sorted(raced(value, [1.0], seed=seed))
    assert (middle[len(middle) // 2] >= 0.0) == (value >= 1.0)


class Nvml:
    """Answers like pynvml: pids in each sample, and clock event reasons."""

    NVML_CLOCK_SM = 1

    def __init__(self, pids, reasons=0, top=1980):
        self.pids, self.reasons, self.top = pids, reasons, top

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return self.top

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return 1500


def notes(nvml, samples=4, ours=1):
    watch = Monitor(nvml, handle=None, ours=ours)
    for _ in range(samples):
        watch.sample()
    return " ".join(watch.notes())


HELD_DOWN = "the GPU was slowed down by its power limit and its temperature (SM clock 1500 to 1500 MHz)"


@pytest.mark.parametrize(
    ("nvml", "ours", "note"),
    [
        (Nvml([7]), 1, ""),
        (Nvml([], reasons=0x01 | 0x02), 1, ""),
        (Nvml([7, 8]), 1, "another process used this GPU"),
        (Nvml([7, 8, 9]), 1, "2 other processes"),
        (Nvml([7, 8]), 2, ""),  # the one in which hidden cases were launched
        (Nvml([7, 8, 9]), 2, "another process"),
        (Nvml([7], reasons=0x04 | 0x20), 1, HELD_DOWN),
        (Nvml([7], reasons=0x04, top=1520), 1, ""),  # a limit that cost hardly any clock
    ],
)
def test_what_disturbed_the_gpu_is_noted(nvml, ours, note):
    said = notes(nvml, ours=ours)
    assert note in said
    assert bool(said) == bool(note)


def test_an_nvml_that_does_not_tell_is_no_error():
    assert notes(object()) == ""


def test_tests_that_use_the_gpu_run_one_after_the_other():
    """A file marked gpu belongs to the one group, so that `make test` gives all of them to one process."""
    files = [path for path in TESTS.rglob("test_*.py") if "pytest.mark.gpu," in path.read_text(encoding="utf-8")]
    assert len(files) >= 3
    for path in files:
        assert 'pytest.mark.xdist_group("gpu")' in path.read_text(encoding="utf-8"), path.name
