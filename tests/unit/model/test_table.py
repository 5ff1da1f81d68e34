"""Methods, table and card: on a tiny model, and that what is committed belongs together."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace

import pytest
import torch

from grader.labs import all_labs
from model.card import CARD, card
from model.methods import GROUP, METHODS, Examples, chosen, quantised, weight_bits
from model.quantisers.rounding import rounded
from model.store import WEIGHTS, load_origin
from model.table import NOT_MEASURED, UnusableResults, load, markdown, tabulate, to_json
from model.training import Recipe
from model.transformer import Sizes, Transformer
from tests.unit.model.small import tokens

WIDE = Sizes(layers=1, width=128, heads=2, context=32)
TEXT = bytes(tokens(1, 4000, seed=3)[0].tolist())
TAUGHT = Recipe(steps=2, batch=4, learning_rate=1e-3)


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(WIDE).eval()


@pytest.fixture(scope="module")
def examples(model) -> Examples:
    return Examples(model, TEXT, windows=8, recipe=TAUGHT)


def label(method) -> str:
    return f"{method.name}{' planted' if method.planted else ''}"


@pytest.mark.parametrize("method", METHODS, ids=label)
def test_every_method_changes_the_chosen_layers_and_no_other(method, model, examples):
    before = copy.deepcopy(model.state_dict())
    changed = quantised(method, model, examples)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    text = tokens(2, 32)
    assert torch.isfinite(changed(text)).all()
    if method.weights is None:
        torch.testing.assert_close(changed(text), model(text), rtol=1e-4, atol=1e-4)
    else:
        assert not torch.allclose(changed(text), model(text), rtol=1e-5, atol=1e-6)
    if not method.planted and "training" not in method.name:
        assert torch.equal(changed.head.weight, model.head.weight)
        assert torch.equal(changed.embedding.weight, model.embedding.weight)


@pytest.mark.parametrize("method", [m for m in METHODS if m.weights and m.activation_bits == 16 and "AWQ" not in m.name], ids=label)
def test_weights_take_no_more_values_than_their_bits_allow(method, model, examples):
    changed = quantised(method, model, examples)
    assert len(chosen(changed)) == 4
    for layer in chosen(changed).values():
        row = layer.weight.detach()[0]
        assert len(row[: method.weights.group or len(row)].unique()) <= 2**method.weights.bits
    if "round to nearest" in method.name:
        name, layer = next(iter(chosen(changed).items()))
        assert torch.equal(layer.weight, rounded(model.get_submodule(name).weight.detach(), method.weights))


def test_bits_count_scales(model):
    named = {method.name: method for method in METHODS}
    assert weight_bits(named["fp16"], model) == 16
    assert weight_bits(named[f"round to nearest: int4, groups of {GROUP}"], model) == 4.125
    assert weight_bits(named["round to nearest: int8, one scale a tensor"], model) == 8


def test_the_table_has_a_row_for_each_method_and_lab(model, tmp_path):
    weights = tmp_path / "weights"
    weights.write_bytes(b"weights")
    methods = tuple(method for method in METHODS if method.name in ("fp16", "SmoothQuant"))
    told = []
    results = tabulate(model, weights, TEXT, TEXT[:641], ("os.py",), methods, told.append)
    assert [row.lab for row in results.rows] == [None] * 4 + list(all_labs())
    assert results.sample_bytes == 640
    assert results.weights_sha256 == hashlib.sha256(b"weights").hexdigest()
    assert len(told) == len(results.rows)
    bits = {row.lab: row.weight_bits for row in results.rows if row.lab}
    assert 8 < bits["w8a8"] < 8.5
    assert 4 < bits["w4a16"] < 4.3
    assert 8 < bits["dds"] < 8.5
    assert {row.lab: row.activation_bits for row in results.rows}["w8a8"] == 8
    assert all(row.perplexity == pytest.approx(2**row.bits_per_byte) for row in results.rows)
    path = tmp_path / "results.json"
    path.write_text(to_json(results))
    assert load(path) == results
    assert results.of("SmoothQuant", planted=True).planted
    with pytest.raises(KeyError, match="found no row 'GPTQ'"):
        results.of("GPTQ")
    text = markdown(results)
    assert text.count("\n| ") == len(results.rows) + 1
    if not torch.cuda.is_available():
        assert all(row.time_us is None for row in results.rows)
        assert text.count(NOT_MEASURED) == len(results.rows)
    timed = replace(results, rows=(replace(results.rows[0], time_us=12.34),))
    assert "12.3 us" in markdown(timed)


def test_results_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UnusableResults, match="python -m model table"):
        load(tmp_path / "results.json")


def test_the_committed_results_are_of_the_committed_weights():
    assert load().weights_sha256 == hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    assert {(row.method, row.planted) for row in load().rows if row.lab is None} == {(m.name, m.planted) for m in METHODS}


def test_the_committed_card_is_of_the_committed_record_and_results():
    assert CARD.read_text(encoding="utf-8") == card(load_origin(), load())
