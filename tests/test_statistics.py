"""The ratio and its interval on synthetic rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grader.statistics import ratio


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


def test_drift_widens_the_interval():
    steady, drifting = rounds(1.5), [log + 0.002 * n for n, log in enumerate(rounds(1.5))]
    assert ratio(drifting).high / ratio(drifting).low > ratio(steady).high / ratio(steady).low


def test_a_boundary_inside_the_interval_is_seen():
    measured = ratio(rounds(1.0, spread=0.02))
    assert measured.crosses([0.5, measured.value])
    assert not measured.crosses([0.5, 2.0])


def test_the_same_rounds_give_the_same_interval():
    assert ratio(rounds(1.2)) == ratio(rounds(1.2))


@pytest.mark.parametrize("logs", [[], [math.nan], [0.0, math.inf]])
def test_no_rounds_or_not_finite_is_an_error(logs):
    with pytest.raises(ValueError, match="expected at least one finite"):
        ratio(logs)
