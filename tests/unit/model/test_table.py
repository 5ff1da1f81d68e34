"""Methods, table and card: on a tiny model, and that what is committed belongs together."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace

import pytest
import torch

from grader.labs import all_labs
from grader.unusable import Unusable
from model.card import CARD, card
from model.corpus import HeldOut
from model.methods import GROUP, METHODS, Examples, chosen, quantised, weight_bits
from model.quantisers.rounding import rounded
from model.store import WEIGHTS, load_origin
from model.table import (
    NO_KERNEL,
    NOT_MEASURED,
    CostRow,
    CostTable,
    load,
    markdown,
    tabulate,
    to_json,
    with_labs,
)
from model.times import TIMED_LAYER, TIMED_TOKENS, LayerTime, LayerTimes, kernels, load_times
from model.times import to_json as times_to_json
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


@pytest.mark.slow
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
    heard = []
    results = tabulate(model, weights, TEXT, HeldOut(TEXT[:641], 1, ("os.py",)), methods, heard.append)
    assert [row.lab for row in results.rows] == [None] * 4 + list(all_labs())
    assert results.sample_bytes == 640
    assert results.weights_sha256 == hashlib.sha256(b"weights").hexdigest()
    assert len(heard) == len(results.rows)
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
    assert text.count(NOT_MEASURED) == len(results.rows)


def of_kernel(lab, group, time_us=12.34, status="timed"):
    return LayerTime(lab, group, status, time_us=time_us, fp16_us=20.0, ratio=1.6, ratio_low=1.5, ratio_high=1.7)


def test_the_table_shows_the_time_of_the_kernel_for_a_format():
    def row(name, kernel, group=0):
        return CostRow(name, 4.0, 16, False, 1.5, 2.8, kernel, group)

    rows = (row("fp16", "fp16"), row("int4", "w4a16"), row("groups", "gptq", 128), row("fine", "gptq", 32), row("int3", None))
    results = CostTable("CPU", {"torch": "2.13.0"}, "2026-01-31", "", 640, (), rows)
    times = LayerTimes("NVIDIA H200", "580.1", {"torch": "2.11.0"}, "2026-01-31 10:00 UTC", TIMED_LAYER, TIMED_TOKENS,
                       (of_kernel("w4a16", 0), of_kernel("gptq", 128, 56.78), of_kernel("gptq", 32, status="failed")))
    column = [line.split("|")[-2].strip() for line in markdown(results, times).splitlines()[2:]]
    assert column == ["20.0 us", "12.3 us", "56.8 us", NOT_MEASURED, NO_KERNEL]
    column = [line.split("|")[-2].strip() for line in markdown(results).splitlines()[2:]]
    assert column == [NOT_MEASURED] * 4 + [NO_KERNEL]
    text = card(load_origin(), results, times)
    assert "Measured by `python -m model times` on NVIDIA H200, driver 580.1, torch 2.11.0, 2026-01-31 10:00 UTC." in text
    assert "was not measured yet" in card(load_origin(), results)


def test_formats_have_the_kernels_that_take_them():
    found = {method.name: (method.kernel, method.group) for method in METHODS if not method.planted}
    assert found["round to nearest: int8, one a channel"] == ("w8a16", 0)
    assert found["GPTQ: int4, one a channel"] == ("w4a16", 0)
    assert found[f"round to nearest: int4, groups of {GROUP}, zero points"] == ("gptq", GROUP)
    assert found["round to nearest: int4, groups of 32"] == ("gptq", 32)
    assert found["SmoothQuant"] == ("w8a8", 0)
    assert {found[name][0] for name in ("LLM.int8()", f"ZeroQuant, groups of {GROUP}", f"AWQ: int3, groups of {GROUP}")} == {None}
    assert {lab for lab, _ in kernels()} == set(all_labs())
    assert set(kernels()) >= {key for key in found.values() if key[0]}


def test_times_survive_their_json_and_bad_ones_are_refused(tmp_path):
    path = tmp_path / "times.json"
    assert load_times(path) is None
    times = LayerTimes("NVIDIA H200", "580.1", {}, "2026-01-31", TIMED_LAYER, TIMED_TOKENS, (of_kernel("w8a8", 0),))
    path.write_text(times_to_json(times))
    assert load_times(path) == times
    path.write_text("{}")
    with pytest.raises(Unusable, match="run `python -m model times` on a GPU"):
        load_times(path)


def test_labs_can_be_measured_alone(model, tmp_path):
    """A lab that is new gets its row, and what the methods' rows rest on must be what the labs' rest on."""
    weights = tmp_path / "weights"
    weights.write_bytes(b"weights")
    whole = tabulate(model, weights, TEXT, HeldOut(TEXT[:641], 1, ()), METHODS[:1])
    partly = replace(whole, date="2026-01-31", rows=(replace(whole.rows[0], perplexity=7.0), whole.rows[1]))
    again = with_labs(partly, model, weights, TEXT)
    assert again.rows == (partly.rows[0], *whole.rows[1:])
    assert again.date == whole.date
    weights.write_bytes(b"others")
    with pytest.raises(Unusable, match="expected those of now; measure all rows"):
        with_labs(partly, model, weights, TEXT)


def test_results_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(Unusable, match="python -m model table"):
        load(tmp_path / "results.json")


def test_the_committed_results_are_of_the_committed_weights():
    assert load().weights_sha256 == hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    assert {(row.method, row.planted) for row in load().rows if row.lab is None} == {(m.name, m.planted) for m in METHODS}
    assert set() < {row.lab for row in load().rows if row.lab} <= set(all_labs())


def test_the_committed_card_is_of_the_committed_record_and_results():
    assert CARD.read_text(encoding="utf-8") == card(load_origin(), load(), load_times())
