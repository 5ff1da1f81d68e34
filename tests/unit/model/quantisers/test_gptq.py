"""GPTQ against least squares, brute force and round to nearest."""

from __future__ import annotations

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_each_column_is_rounded_after_the_best_repair(seed):
    w, x = normal(6, 12, seed=seed), correlated(40, 12, seed)
    torch.testing.assert_close(gptq(w, hessian(x), Format(3), damping=0.0), by_least_squares(w, x, Format(3)))


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


def test_a_dead_feature_does_no_harm():
    w, x = normal(4, 16), correlated(50, 16)
    x[:, 5] = 0
    assert torch.isfinite(gptq(w, hessian(x), Format(4))).all()


def test_one_scale_a_tensor_is_refused():
    with pytest.raises(ValueError, match="share='tensor'"):
        gptq(normal(4, 16), torch.eye(16), Format(4, "tensor"))
