"""From rounds of timings to a ratio one can trust: median of per-round log-ratios with a bootstrap interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Ratio:
    """baseline time / student time: the median over rounds and its bootstrap interval."""

    value: float
    low: float
    high: float
    rounds: int

    def near(self, boundaries: Sequence[float], share: float = 0.0) -> bool:
        """Whether a tier boundary lies inside the interval, or outside by less than this share of the ratio."""
        return any(self.low / (1 + share) < boundary < self.high * (1 + share) for boundary in boundaries)


def ratio(log_ratios: Sequence[float]) -> Ratio:
    """Median of the rounds' ratios and the percentile bootstrap interval of that median. Needs one round or more."""
    logs = np.asarray(log_ratios, dtype=np.float64)
    if logs.size == 0 or not np.isfinite(logs).all():
        raise ValueError(f"{logs.size} rounds, some not finite; expected at least one finite log-ratio")
    samples = np.random.default_rng(0).choice(logs, size=(RESAMPLES, logs.size))
    low, high = np.quantile(np.median(samples, axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Ratio(math.exp(float(np.median(logs))), math.exp(float(low)), math.exp(float(high)), int(logs.size))
