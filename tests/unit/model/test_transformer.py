"""The small model: what it may look at, and that every layer fits the labs' formats."""

from __future__ import annotations

import pytest
import torch

from model.transformer import Sizes, Transformer, linear_layers, norms_before, rotary_cos_sin, rotate
from tests.unit.model.small import TINY, normal, tiny_model, tokens


def test_a_later_byte_changes_nothing_before_it():
    model, text = tiny_model(), tokens()
    changed = text.clone()
    changed[:, 20:] = 255 - changed[:, 20:]
    before, after = model(text), model(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert (before[:, 20:] - after[:, 20:]).abs().amax(dim=-1).min() > 0


def test_every_side_is_a_multiple_of_64_and_nothing_has_a_bias():
    layers = linear_layers(Transformer(Sizes()))
    assert len(layers) == 4 * Sizes().layers + 1
    assert all(side % 64 == 0 for layer in layers.values() for side in layer.weight.shape)
    assert all(layer.bias is None for layer in layers.values())


def test_rotation_keeps_lengths_and_looks_at_distances_only():
    cos_sin = rotary_cos_sin(16, 8, torch.device("cpu"))
    query, key = normal(1, 8).expand(16, 8), normal(1, 8, seed=1).expand(16, 8)
    q, k = rotate(query, *cos_sin), rotate(key, *cos_sin)
    torch.testing.assert_close(q.norm(dim=1), query.norm(dim=1))
    scores = q @ k.t()
    torch.testing.assert_close(scores[5, 2], scores[13, 10])
    assert (scores[5, 2] - scores[5, 3]).abs() > 1e-3


def test_each_norm_is_followed_by_the_layer_that_reads_it():
    model = tiny_model()
    named = dict(model.named_modules())
    found = list(norms_before(model))
    assert len(found) == 2 * TINY.layers + 1
    assert all(named[norm_name] is norm and named[name] is layer for norm_name, norm, name, layer in found)


def test_a_text_longer_than_the_context_is_refused():
    with pytest.raises(ValueError, match="found 33 bytes, expected at most 32"):
        tiny_model()(tokens(1, 33))


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="width=96"):
        Sizes(width=96)
