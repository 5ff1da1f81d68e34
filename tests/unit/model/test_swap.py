"""Every lab's layers in a model, on the CPU: what they compute, which are chosen, and what is refused."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch

from grader.labs import all_labs
from model import swap as swapping
from model.layers import but_the_head, layer_inputs, relative_error, replace
from model.swap import CannotSwap, Swapped, options_of, swap
from model.transformer import linear_layers
from tests.kernels.test_layers import dense_weight
from tests.submissions import TESTS
from tests.unit.model.small import normal, tiny_model, tokens

LABS = sorted(all_labs())
ROOT = TESTS.parent
OWN = ("w8a8", "w4a16", "dds")


@pytest.mark.parametrize("lab", LABS)
def test_every_lab_has_layers_for_the_model(lab):
    model = tiny_model()
    swapped = copy.deepcopy(model)
    names = swap(swapped, lab)
    assert names == list(linear_layers(model))
    assert linear_layers(swapped) == {}
    found = swapped(tokens())
    assert torch.isfinite(found).all()
    assert 0 < relative_error(found, model(tokens())) < 1.5


@pytest.mark.parametrize("lab", OWN)
def test_a_layer_computes_with_the_weight_that_its_buffers_stand_for(lab):
    model = tiny_model()
    swapped = copy.deepcopy(model)
    swap(swapped, lab, choose=lambda name: name == "blocks.0.mlp.up")
    layer = swapped.get_submodule("blocks.0.mlp.up")
    x = layer_inputs(model, tokens())["blocks.0.mlp.up"]
    expected = x.double() @ dense_weight(lab, layer.layer).t()
    assert relative_error(layer(x), expected) < (0.02 if lab == "w8a8" else 0.002)
    assert layer(x).dtype == x.dtype


def test_only_the_chosen_layers_are_replaced():
    model = tiny_model()
    assert "head" not in swap(model, "w4a16", choose=but_the_head)
    assert type(model.head) is torch.nn.Linear
    assert isinstance(model.get_submodule("blocks.0.mlp.up"), Swapped)


def test_a_sparsity_is_passed_on():
    model, whole = tiny_model(), tiny_model()
    swap(model, "dds", sparsity=0.0)
    torch.testing.assert_close(model(tokens()), whole(tokens()), rtol=0.02, atol=0.02)
    swap(whole, "dds", sparsity=1.0, choose=lambda name: name == "head")
    assert (whole(tokens()) == 0).all()


def test_one_swap_says_nothing_to_another():
    """Each has a module of its own: naive in one leaves the kernel in the other."""
    first, second = tiny_model(), tiny_model()
    swap(first, "w8a8", runs="naive")
    swap(second, "w8a8", runs="kernel")
    first(tokens())
    with pytest.raises(ValueError, match="found x on cpu"):
        second(tokens())


def test_the_kernel_of_a_submission_is_taken(tmp_path):
    text = (ROOT / "solutions" / "dds.py").read_text(encoding="utf-8").replace('"BLOCK_M": 256', '"BLOCK_M": 512')
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    model = tiny_model()
    swap(model, "dds", runs="kernel", submission=tmp_path / "mine.py")
    module = type(model.get_submodule("head").layer).forward.__globals__
    assert {config.kwargs["BLOCK_M"] for config in module["DDS_MM"].configs} == {16, 32, 64, 128, 512}
    assert module["CONFIGS"] is not None
    assert "BLOCK_M" in module["DDS_MM"].arg_names


@pytest.mark.parametrize(
    ("lab", "options", "words"),
    [
        ("w2a2", {}, "no lab 'w2a2'; the labs are"), ("w8a8", {"choose": lambda name: False}, "found no Linear layer"),
        ("w8a8", {"runs": "kernel", "submission": ROOT / "assignment"}, "W8A8_MM is still the stub"),
    ],
)
def test_what_cannot_be_swapped_is_refused(lab, options, words):
    with pytest.raises(CannotSwap, match=words):
        swap(tiny_model(), lab, **options)


def test_a_lab_without_its_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(swapping, "ROOT", tmp_path)
    with pytest.raises(CannotSwap, match=r"found no w8a8\.py in solutions or assignment"):
        swap(tiny_model(), "w8a8")
    (tmp_path / "assignment").mkdir()
    stub = (ROOT / "assignment" / "w8a8.py").read_text(encoding="utf-8")
    (tmp_path / "assignment" / "w8a8.py").write_text(stub, encoding="utf-8")
    model = tiny_model()
    swap(model, "w8a8")
    assert torch.isfinite(model(tokens())).all()
    (tmp_path / "assignment" / "w8a8.py").write_text(stub.replace("def naive(", "def another("), encoding="utf-8")
    with pytest.raises(CannotSwap, match="found no naive"):
        swap(tiny_model(), "w8a8")


def test_groups_are_passed_on_and_options_are_told():
    assert options_of("gptq") == ("group_size",)
    assert "sparsity" in options_of("dds")
    assert options_of("w8a8") == ()
    model = tiny_model()
    swap(model, "gptq", group_size=32, choose=lambda name: name == "head")
    assert model.get_submodule("head").layer.scales.shape == (2, 256)


def test_a_swapped_layer_is_found_by_what_compiles_it():
    """torch.compile imports the module of a layer by its name."""
    model = tiny_model()
    swap(model, "w8a8", choose=lambda name: name == "head")
    layer = model.get_submodule("head").layer
    assert getattr(importlib.import_module(type(layer).__module__), type(layer).__name__) is type(layer)


def test_a_swapped_layer_can_be_replaced_again():
    model = tiny_model()
    swap(model, "w8a8", choose=lambda name: name == "head")
    linear = torch.nn.Linear(64, 256, bias=False)
    linear.weight.data = normal(256, 64)
    replace(model, "head", linear)
    assert swap(model, "w4a16", choose=lambda name: name == "head") == ["head"]
