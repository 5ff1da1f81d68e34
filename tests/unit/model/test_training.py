"""Training, with rounded weights or held zeros too, on a text that a tiny model can learn in seconds."""

from __future__ import annotations

import copy

import pytest
import torch

from model.layers import but_the_head
from model.perplexity import measure
from model.pruning import block_mask, prune
from model.quantisers.qat import StraightThrough, train_quantised
from model.quantisers.rounding import Format, rounded
from model.training import Recipe, batches, learning_rate, train
from model.transformer import linear_layers
from tests.unit.model.small import TINY, normal, tiny_model

TEXT = b"".join(f"def function_{n}(argument): return argument + {n}\n".encode() for n in range(400))
CPU = torch.device("cpu")
SHORT = Recipe(steps=60, batch=8, learning_rate=5e-3)


@pytest.fixture(scope="module")
def trained():
    """A tiny model that knows TEXT."""
    return train(TINY, TEXT, SHORT, CPU)[0]


def test_the_rate_rises_falls_and_ends_at_zero():
    rates = [learning_rate(2.0, at / 1000) for at in range(1001)]
    assert rates[0] == 0
    assert max(rates) == rates[20] == 2.0
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[510] == pytest.approx(1.0)
    assert rates[1000] == pytest.approx(0.0)


def test_a_pass_goes_through_the_text_once():
    text = bytes(range(256)) * 8
    source = batches(text, 16, 4, torch.Generator().manual_seed(0))
    first = torch.cat([next(source) for _ in range(31)])
    assert len(first) == 124  # of 127 or 128 windows, those that fill a batch
    assert ((first[:, 1:] - first[:, :-1]) % 256 == 1).all()
    starts = first[:, 0] % 16
    assert len(starts.unique()) == 1  # one cut a pass, then another
    later = torch.cat([next(source) for _ in range(93)])
    assert len((later[:, 0] % 16).unique()) > 1


@pytest.mark.slow
def test_training_learns(trained):
    assert measure(trained, TEXT[:4096], 32).bits_per_byte < 2.0
    assert measure(tiny_model(), TEXT[:4096], 32).bits_per_byte > 7.0


def test_the_same_seed_gives_the_same_model():
    (model, course), (again, _) = (train(TINY, TEXT, Recipe(steps=3, batch=2), CPU) for _ in range(2))
    other, _ = train(TINY, TEXT, Recipe(steps=3, batch=2, seed=2), CPU)
    assert course.steps == 3
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.head.weight, other.head.weight)


def test_training_ends_after_its_minutes():
    course = train(TINY, TEXT, Recipe(steps=10**6, minutes=0.02, batch=2), CPU)[1]
    assert 1.2 <= course.seconds < 10
    assert course.steps < 10**5


def test_a_text_that_fills_no_batch_is_refused():
    with pytest.raises(ValueError, match="expected a batch of 8 windows of 32"):
        train(TINY, TEXT[:200], SHORT, CPU)


def test_the_gradient_passes_straight_through():
    weight = normal(4, 16).requires_grad_()
    (StraightThrough(Format(3))(weight) * normal(4, 16, seed=1)).sum().backward()
    torch.testing.assert_close(weight.grad, normal(4, 16, seed=1))
    assert torch.equal(StraightThrough(Format(3))(weight).detach(), rounded(weight.detach(), Format(3)))


@pytest.mark.slow
def test_training_with_rounded_weights_wins_back_what_rounding_lost(trained):
    format, plain, taught = Format(2), copy.deepcopy(trained), copy.deepcopy(trained)
    for layer in linear_layers(plain).values():
        layer.weight.data = rounded(layer.weight.data, format)
    train_quantised(taught, TEXT, Recipe(steps=40, batch=8, learning_rate=2e-3), format)
    lost, won = (measure(one, TEXT[:4096], 32).bits_per_byte for one in (plain, taught))
    assert won < lost - 0.1
    for layer in linear_layers(taught).values():
        assert type(layer) is torch.nn.Linear
        torch.testing.assert_close(rounded(layer.weight.detach(), format), layer.weight.detach())


def test_layers_that_are_not_chosen_keep_all_their_digits(trained):
    taught = copy.deepcopy(trained)
    train_quantised(taught, TEXT, Recipe(steps=2, batch=2), Format(2), but_the_head)
    for name, layer in linear_layers(taught).items():
        assert (len(layer.weight[0].unique()) <= 4) == but_the_head(name)


def test_blocks_with_the_smallest_norms_go():
    weight = torch.ones(64, 96) * torch.arange(1, 7).view(2, 3).repeat_interleave(32, 0).repeat_interleave(32, 1)
    mask = block_mask(weight, 0.5)
    assert mask.view(2, 32, 3, 32).float().mean(dim=(1, 3)).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert block_mask(weight, 0.0).all()
    assert not block_mask(weight, 1.0).any()
    with pytest.raises(ValueError, match=r"sparsity=1\.2"):
        block_mask(weight, 1.2)


def test_training_on_keeps_the_zeros_and_wins_back_what_pruning_lost(trained):
    plain, taught = copy.deepcopy(trained), copy.deepcopy(trained)
    assert prune(plain, 0.75) is None
    course = prune(taught, 0.75, text=TEXT, recipe=Recipe(steps=40, batch=8, learning_rate=2e-3))
    assert course is not None
    assert course.steps == 40
    for name, layer in linear_layers(taught).items():
        assert (layer.weight == 0).float().mean() == 0.75
        assert torch.equal(layer.weight == 0, linear_layers(plain)[name].weight == 0)
    lost, won = (measure(one, TEXT[:4096], 32).bits_per_byte for one in (plain, taught))
    assert won < lost - 0.2
