"""The small language model on a GPU: every lab's layers with the solutions' kernels, tuned by Triton alone, against `naive`."""

from __future__ import annotations

import copy

import pytest
import torch

from grader.labs import all_labs
from grader.timing.rounds import capture
from model.corpus import held_out_text
from model.layers import but_the_head, layer_inputs, relative_error
from model.perplexity import measure, windows
from model.store import load
from model.swap import swap
from model.times import LARGEST_ERROR, usual_options
from model.transformer import linear_layers
from tests.submissions import TESTS
from tests.tuning import keep_some_configs, tune_briefly

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]
LABS = list(all_labs())
SAMPLE_BYTES = 8192


@pytest.fixture(scope="module", autouse=True)
def tuned_briefly():
    with pytest.MonkeyPatch.context() as patch:
        tune_briefly(patch)
        yield


def by_kernel_of(model, lab, **options):
    """A copy of the model with the lab's layers, which run some of the solution's configs."""
    changed = copy.deepcopy(model)
    swap(changed, lab, **usual_options(lab), **options)
    keep_some_configs(changed, lab)
    return changed


@pytest.fixture(scope="module")
def model():
    return load(device="cuda")


@pytest.fixture(scope="module")
def text(model):
    return held_out_text().text[: SAMPLE_BYTES + 1]


@pytest.fixture(scope="module")
def inputs(model, text):
    """What each Linear layer is given on some windows of the text, fp16 [tokens, K]."""
    given = layer_inputs(model, windows(text, model.sizes.context)[:16, :-1])
    return {name: x.half() for name, x in given.items()}


@torch.no_grad()
@pytest.mark.parametrize("lab", LABS)
def test_every_layer_gives_by_kernel_what_it_gives_by_naive(lab, model, inputs):
    """Every width of the model, many tokens, a number that no tile divides, and one."""
    by_kernel, by_naive = by_kernel_of(model, lab), copy.deepcopy(model)
    swap(by_naive, lab, runs="naive", **usual_options(lab))
    for name in ("blocks.0.attention.qkv", "blocks.0.attention.out", "blocks.1.mlp.up", "blocks.1.mlp.down", "head"):
        ours, right = by_kernel.get_submodule(name).layer, by_naive.get_submodule(name).layer
        for tokens in (len(inputs[name]), 77, 1):
            x = inputs[name][-tokens:]
            assert relative_error(ours(x), right(x)) < LARGEST_ERROR, (name, tokens)
        transposed = inputs[name][:77].t().contiguous().t()
        assert relative_error(ours(transposed), right(transposed)) < LARGEST_ERROR, (name, "transposed")
        assert ours(inputs[name][:6].view(2, 3, -1)).shape == (2, 3, model.get_submodule(name).out_features)


@pytest.mark.parametrize("lab", LABS)
def test_perplexity_by_kernel_is_that_by_naive(lab, model, text):
    by_naive = copy.deepcopy(model)
    assert swap(by_naive, lab, choose=but_the_head, runs="naive", **usual_options(lab))
    expected, found = (
        measure(changed, text, model.sizes.context).bits_per_byte
        for changed in (by_naive, by_kernel_of(model, lab, choose=but_the_head))
    )
    assert found == pytest.approx(expected, abs=0.005)


@torch.no_grad()
@pytest.mark.parametrize("lab", LABS)
def test_a_swapped_model_can_be_recorded_as_a_graph(lab, model, text):
    """A replay gives what a call gives, on other bytes too, within what sums of slices in any order and flipping int8 quanta make."""
    changed = by_kernel_of(copy.deepcopy(model).half(), lab, choose=but_the_head)
    cut = windows(text, model.sizes.context)[:, :-1].cuda()
    tokens, outputs = cut[:1].clone(), []
    graph = capture(lambda: outputs.__setitem__(slice(None), [changed(tokens)]))
    tokens.copy_(cut[1:2])
    graph.replay()
    assert relative_error(outputs[0], changed(cut[1:2])) < 0.03 < 0.1 < relative_error(outputs[0], changed(cut[:1]))


@torch.no_grad()
def test_the_kernel_of_a_submission_of_w4a16_runs_in_the_model(model, inputs):
    name = "blocks.1.mlp.up"
    by_kernel, by_naive = copy.deepcopy(model), copy.deepcopy(model)
    swap(by_kernel, "w4a16", submission=TESTS.parent / "solutions" / "w4a16.py", choose=lambda layer: layer == name)
    swap(by_naive, "w4a16", runs="naive", choose=lambda layer: layer == name)
    ours, right = by_kernel.get_submodule(name), by_naive.get_submodule(name)
    assert linear_layers(by_kernel).keys() == linear_layers(model).keys() - {name}
    assert relative_error(ours(inputs[name]), right(inputs[name])) < LARGEST_ERROR
