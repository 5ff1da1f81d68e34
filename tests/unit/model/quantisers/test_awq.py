"""AWQ against its definition, by trying each strength."""

from __future__ import annotations

import pytest
import torch

from model.quantisers.awq import awq, salience, scales
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


def test_scaled_inputs_and_weights_give_the_same_outputs():
    w, x = normal(32, 64), uneven(0)
    found = awq(w, x, FORMAT)
    torch.testing.assert_close((x / found.scales) @ rounded(w * found.scales, FORMAT).t(), x @ found.weight.t(), rtol=1e-4, atol=1e-3)


def test_even_features_leave_round_to_nearest():
    w, x = normal(32, 64), torch.cat((torch.eye(64), -torch.eye(64)))
    torch.testing.assert_close(awq(w, x, FORMAT).weight, rounded(w, FORMAT))
    torch.testing.assert_close(scales(salience(x), 0.7), torch.ones(64))
