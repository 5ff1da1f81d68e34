"""The ratio and its interval on synthetic rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grader.judging.ratios import ratio


def rounds(value, spread=0.003, count=45, seed=0):
    return list(math.log(value) + np.random.default_rng(seed).normal(0, spread, count))


@pytest.mark.parametrize("value", [0.1, 0.97, 1.0, 1.78, 12.0])
def test_the_median_finds_the_ratio(value):
    measured = ratio(rounds(value))
    assert measured.value == pytest.approx(value, rel=0.003)
    assert measured.low <= measured.value <= measured.high
    assert measured.high / measured.low < 1.01


def test_outliers_and_a_second_mode_do_not_move_it():
    logs = rounds(1.5)
    logs[::10] = [math.log(0.3)] * len(logs[::10])
    assert ratio(logs).value == pytest.approx(1.5, rel=0.01)


@pytest.mark.parametrize(
    ("value", "spread", "boundaries", "share", "near"),
    [
        (1.0, 0.02, lambda one: [0.5, one.value], 0.0, True),
        (1.0, 0.02, lambda one: [0.5, 2.0], 0.0, False),
        (1.0, 0.003, lambda one: [one.low / 1.02, one.high * 1.02], 0.0, False),
        (1.0, 0.003, lambda one: [one.high * 1.02], 0.03, True),
        (1.0, 0.003, lambda one: [one.low / 1.02], 0.03, True),
        (1.0, 0.003, lambda one: [one.low / 1.02, one.high * 1.02], 0.01, False),
        (1.205, 0.003, lambda one: [1.195, 1.215], 0.0, False),  # 0.5 % away and 0.3 % of noise: 45 rounds say which side
    ],
)
def test_a_boundary_in_the_interval_or_beside_it_by_a_share_of_the_ratio_is_near(value, spread, boundaries, share, near):
    measured = ratio(rounds(value, spread))
    assert measured.near(boundaries(measured), share) is near


def test_the_same_rounds_give_the_same_interval():
    assert ratio(rounds(1.2)) == ratio(rounds(1.2))


@pytest.mark.parametrize("logs", [[], [math.nan], [0.0, math.inf]])
def test_no_rounds_or_not_finite_is_an_error(logs):
    with pytest.raises(ValueError, match="expected at least one finite"):
        ratio(logs)


def test_two_equal_modes_are_told_by_a_wide_interval():
    """Half of the rounds at another clock: whichever mode the median falls into, the interval reaches the other."""
    logs = [log + (0.1 if n % 2 else 0.0) for n, log in enumerate(rounds(1.5, count=45))]
    measured = ratio(logs)
    assert measured.near([1.5 * math.exp(0.05)])
    assert measured.high / measured.low > 1.05


def test_more_rounds_narrow_the_interval():
    few, many = ratio(rounds(1.0, spread=0.02)), ratio(rounds(1.0, spread=0.02, count=180))
    assert many.high - many.low < 0.7 * (few.high - few.low)


def test_slow_drift_leaves_the_middle_in_the_interval():
    """Round by round the GPU warms up: A B B A cancels it inside a round, and the median of rounds is its middle."""
    drifting = [math.log(1.5) + 0.001 * (n - 22) for n in range(45)]
    measured = ratio(drifting)
    assert measured.value == pytest.approx(1.5)
    assert measured.low < 1.5 < measured.high
