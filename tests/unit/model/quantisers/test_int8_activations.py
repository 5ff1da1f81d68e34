"""LLM.int8(), SmoothQuant and ZeroQuant against their definitions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from model.layers import relative_error
from model.quantisers.activations import RoundedInputLinear
from model.quantisers.llm_int8 import LLMInt8Linear, llm_int8, outlier_features
from model.quantisers.rounding import Format, rounded
from model.quantisers.smoothquant import migrate, smoothing
from model.quantisers.zeroquant import zeroquant
from tests.unit.model.small import normal

OUTLIERS = [3, 17]


def with_outliers(rows: int = 32, columns: int = 64) -> torch.Tensor:
    x = normal(rows, columns).clamp(-4, 4)
    x[:, OUTLIERS] *= 50.0
    x[0, OUTLIERS] = 60.0
    return x


def linear(n: int = 48, k: int = 64) -> nn.Linear:
    layer = nn.Linear(k, n, bias=False)
    with torch.no_grad():
        layer.weight.copy_(normal(n, k, seed=1) / 8)
    return layer


def test_outlier_features_are_found():
    assert outlier_features(with_outliers()).nonzero().flatten().tolist() == OUTLIERS
    assert not outlier_features(torch.full((2, 4), 5.99)).any()
    assert outlier_features(torch.full((2, 4), -6.0)).all()


def test_outliers_are_multiplied_exactly():
    x, w = with_outliers(), linear().weight.detach()
    only = torch.zeros_like(x)
    only[:, OUTLIERS] = x[:, OUTLIERS]
    torch.testing.assert_close(llm_int8(only, w), only @ w.t(), rtol=1e-5, atol=1e-5)
    rest = x.clone()
    rest[:, OUTLIERS] = 0
    small = [k for k in range(64) if k not in OUTLIERS]
    int8 = rounded(x[:, small], Format(8)) @ rounded(w[:, small], Format(8)).t()
    torch.testing.assert_close(llm_int8(x, w) - only @ w.t(), int8, rtol=1e-4, atol=1e-3)


def test_without_outliers_it_is_plain_int8_and_with_nothing_else_it_is_exact():
    x, w = normal(8, 64).clamp(-4, 4), linear().weight.detach()
    torch.testing.assert_close(llm_int8(x, w), rounded(x, Format(8)) @ rounded(w, Format(8)).t())
    torch.testing.assert_close(llm_int8(x, w, threshold=0.0), x @ w.t())


def test_the_decomposition_saves_what_int8_loses_to_outliers():
    x, layer = with_outliers(), linear()
    expected = layer(x).detach()
    plain = RoundedInputLinear(rounded(layer.weight.detach(), Format(8)))
    decomposed = LLMInt8Linear(layer.weight)
    small = torch.ones(64, dtype=torch.bool)
    small[OUTLIERS] = False
    share = F.linear(x[:, small], layer.weight[:, small]).norm() / expected.norm()
    assert share > 0.05  # something was there to lose
    assert relative_error(decomposed(x), expected) < 0.2 * relative_error(plain(x), expected)
    assert decomposed.outliers == len(OUTLIERS)
    assert decomposed(x.view(4, 8, 64)).shape == (4, 8, 48)


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.8, 1.0])
def test_migration_leaves_the_function_as_it_is(strength):
    norm, layer, x = nn.RMSNorm(64, eps=1e-6), linear(), with_outliers()
    with torch.no_grad():
        norm.weight.copy_(normal(64, seed=2))
    before = layer(norm(x)).detach()
    s = smoothing(norm(x).detach(), layer.weight, strength)
    migrate(norm, layer, s)
    torch.testing.assert_close(layer(norm(x)), before, rtol=1e-4, atol=1e-4)


def test_a_strength_of_one_half_makes_the_ranges_of_x_and_w_meet():
    x, w = with_outliers(), linear().weight.detach()
    s = smoothing(x, w)
    torch.testing.assert_close((x / s).abs().amax(dim=0), (w * s).abs().amax(dim=0))


def test_a_strength_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"strength=1\.5"):
        smoothing(with_outliers(), linear().weight, 1.5)


def test_zeroquant_rounds_weights_in_groups_and_inputs_by_token():
    layer, x = linear(), with_outliers()
    layer.weight.data[0, 0] = 40.0  # spoils its group, not its row
    product = zeroquant(layer, group=16)(x)
    w = torch.cat([rounded(part, Format(8)) for part in layer.weight.detach().split(16, dim=1)], dim=1)
    torch.testing.assert_close(product, rounded(x, Format(8)) @ w.t())
    by_row = rounded(layer.weight.detach(), Format(8))
    assert (w - layer.weight)[0, 16:].norm() < 0.2 * (by_row - layer.weight)[0, 16:].norm()
