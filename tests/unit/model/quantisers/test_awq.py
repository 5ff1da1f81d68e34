"""AWQ against its definition, by trying each strength."""

from __future__ import annotations

import pytest
import torch

from model.quantisers.awq import awq
from model.quantisers.rounding import Format, rounded
from tests.unit.model.small import normal

FORMAT = Format(3, group=16)


def uneven(seed: int) -> torch.Tensor:
    """Inputs whose features differ thirtyfold in size."""
    return normal(200, 64, seed=seed) * torch.logspace(-1, 0.5, 64)[torch.randperm(64, generator=torch.Generator().manual_seed(seed))]


def error(x: torch.Tensor, w: torch.Tensor, q: torch.Tensor) -> float:
    return float((x.double() @ (w - q).double().t()).square().sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_best_strength_is_found_and_beats_round_to_nearest(seed):
    w, x = normal(32, 64, seed=seed + 10), uneven(seed)
    found = awq(w, x, FORMAT)
    tried = {}
    for choice in range(20):
        s = x.abs().mean(dim=0) ** (choice / 20)
        s = s / (s.max() * s.min()).sqrt()
        tried[choice / 20] = error(x, w, rounded(w * s, FORMAT) / s)
    assert found.strength == min(tried, key=lambda strength: tried[strength])
    assert error(x, w, found.weight) == pytest.approx(min(tried.values()), rel=1e-4)
    assert found.strength > 0
    assert error(x, w, found.weight) < 0.8 * error(x, w, rounded(w, FORMAT))
