"""GPTQ against least squares, brute force and round to nearest."""

from __future__ import annotations

import itertools

import pytest
import torch

from model.quantisers.gptq import gptq, hessian, objective
from model.quantisers.rounding import Format, grid_of, rounded
from tests.unit.model.small import normal


def correlated(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Inputs whose features say much about each other, as in a network."""
    return normal(rows, columns, seed=seed) @ (torch.eye(columns) + normal(columns, columns, seed=seed + 1) / columns**0.5)


def by_least_squares(w: torch.Tensor, x: torch.Tensor, format: Format) -> torch.Tensor:
    """Column by column as the method is defined: after each, the columns still to come are those that repair most, solved anew."""
    left, result = w.double().clone(), torch.zeros_like(w, dtype=torch.float64)
    x, target = x.double(), x.double() @ w.double().t()
    grid = grid_of(w, format)
    for j in range(w.shape[1]):
        result[:, j] = grid.nearest(left[:, j : j + 1].float())[:, 0].double()
        if j + 1 < w.shape[1]:
            missing = target - x[:, : j + 1] @ result[:, : j + 1].t()
            left[:, j + 1 :] = torch.linalg.lstsq(x[:, j + 1 :], missing).solution.t()
    return result.float()


@pytest.mark.parametrize("seed", range(5))
def test_each_column_is_rounded_after_the_best_repair(seed):
    w, x = normal(6, 12, seed=seed), correlated(40, 12, seed)
    torch.testing.assert_close(gptq(w, hessian(x), Format(3), damping=0.0), by_least_squares(w, x, Format(3)))


@pytest.mark.parametrize("seed", range(10))
def test_never_worse_than_round_to_nearest_nor_better_than_the_best_of_all(seed):
    w, x, format = normal(1, 5, seed=seed), correlated(20, 5, seed), Format(2)
    h, grid = hessian(x), grid_of(w, format)
    codes = torch.tensor(list(itertools.product(range(-2, 2), repeat=5)), dtype=torch.float32)
    best = min(objective(w, (row * grid.scale), h) for row in codes)
    found = objective(w, gptq(w, h, format, damping=0.0), h)
    assert best <= found * (1 + 1e-9)
    assert found <= objective(w, rounded(w, format), h) * (1 + 1e-9)


@pytest.mark.parametrize("format", [Format(4), Format(3), Format(4, group=16), Format(3, group=32, zero_point=True)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_better_than_round_to_nearest_on_its_own_objective(format, seed):
    w, x = normal(32, 64, seed=seed), correlated(256, 64, seed)
    h = hessian(x)
    assert objective(w, gptq(w, h, format), h) < 0.9 * objective(w, rounded(w, format), h)


def test_the_objective_is_the_error_of_the_outputs():
    w, x = normal(8, 16), correlated(50, 16)
    q = rounded(w, Format(3))
    assert objective(w, q, hessian(x)) == pytest.approx(float((x @ w.t() - x @ q.t()).double().square().sum()), rel=1e-4)


def test_features_that_say_nothing_about_each_other_leave_round_to_nearest():
    w = normal(8, 16)
    assert torch.equal(gptq(w, hessian(torch.eye(16)), Format(4)), rounded(w, Format(4)))


def test_weights_are_on_the_grid_of_their_row():
    w, x = normal(4, 32), correlated(100, 32)
    for row, original in zip(gptq(w, hessian(x), Format(3)), w, strict=True):
        scale = original.abs().max() / 3
        torch.testing.assert_close(row / scale, torch.round(row / scale), rtol=0, atol=1e-5)
        assert len(row.unique()) <= 8


def test_a_dead_feature_does_no_harm():
    w, x = normal(4, 16), correlated(50, 16)
    x[:, 5] = 0
    assert torch.isfinite(gptq(w, hessian(x), Format(4))).all()


def test_one_scale_a_tensor_is_refused():
    with pytest.raises(ValueError, match="share='tensor'"):
        gptq(normal(4, 16), torch.eye(16), Format(4, "tensor"))
