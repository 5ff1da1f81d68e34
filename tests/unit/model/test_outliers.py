"""Planted outliers: the same function, and features of X that stick out."""

from __future__ import annotations

import copy

import pytest
import torch

from model.layers import but_the_head, layer_inputs, replace, set_weight, weight_bytes
from model.outliers import plant
from model.quantisers.llm_int8 import outlier_features
from model.transformer import linear_layers
from tests.unit.model.small import tiny_model, tokens


def test_the_function_is_the_same_to_the_last_digit_of_the_weights():
    model, text = tiny_model(), tokens()
    planted = copy.deepcopy(model)
    plant(planted)
    torch.testing.assert_close(planted(text), model(text), rtol=1e-5, atol=1e-5)
    assert not torch.equal(planted.norm.weight, model.norm.weight)
    plant(planted, factor=1 / 64.0)
    assert all(torch.equal(a, b) for a, b in zip(planted.parameters(), model.parameters(), strict=True))


def test_the_planted_features_are_the_outliers():
    model, text = tiny_model(), tokens()
    planted = plant(model, features=3)
    assert len(planted) == 5
    for name, x in layer_inputs(model, text).items():
        found = set(outlier_features(x, 10.0).nonzero().flatten().tolist())
        assert found == set(planted[name].tolist() if name in planted else [])


def test_more_outliers_than_features_are_refused():
    with pytest.raises(ValueError, match="features=65, expected 0 to 64"):
        plant(tiny_model(), features=65)


def test_what_layers_are_given_is_what_makes_their_outputs():
    model, text = tiny_model(), tokens()
    seen = layer_inputs(model, text, lambda name: name.endswith(("up", "head")))
    assert list(seen) == ["blocks.0.mlp.up", "blocks.1.mlp.up", "head"]
    torch.testing.assert_close(model.head(seen["head"]).view(4, 32, 256), model(text))
    assert not any(layer._forward_pre_hooks for layer in linear_layers(model).values())


def test_a_layer_is_replaced_by_name():
    model = tiny_model()
    layer = torch.nn.Linear(64, 256, bias=False)
    replace(model, "blocks.1.mlp.up", layer)
    assert model.get_submodule("blocks.1.mlp.up") is layer
    set_weight(layer, torch.ones(256, 64).half())
    assert (layer.weight == 1).all()
    assert weight_bytes(layer) == 4 * 256 * 64
    assert not but_the_head("head")
    assert but_the_head("blocks.0.mlp.up")
