"""Are the layers of solutions/ right? On the CPU, against fp64, under Triton's interpreter. Their kernels are graded in test_kernels.py.

Triton decides at import whether kernels are interpreted, and the rest of the suite needs them compiled. So
this file is also a program: `python tests/kernels/test_layers.py LAB` runs the interpreted checks of one lab and
prints what came of each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.commands import python

pytestmark = pytest.mark.slow

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
LAYERS = {"w8a8": "QuantizedLinear_w8a8", "w4a16": "QuantLinear_w4a16", "dds": "SparseLinear", "w8a16": "QuantLinear_w8a16",
          "gptq": "GPTQLinear"}
MULTIPLE_OF = {"w8a8": 16, "w4a16": 8, "dds": 32, "w8a16": 16, "gptq": 8}
SECONDS = 300
TOO_NEW = "only 0-dimensional arrays can be converted to Python scalars"
"""What a newer NumPy says to the interpreter that Triton 3.6 brings along; what the grader interprets is corrected."""


@cache
def solution(lab: str) -> ModuleType:
    """solutions/LAB.py as a module."""
    spec = importlib.util.spec_from_file_location(f"solution_{lab}", SOLUTIONS / f"{lab}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layer_of(lab: str, linear: torch.nn.Linear) -> Any:
    """The lab's layer, built from a Linear; the sparse one keeps half of the blocks, that of GPTQ has groups of 8 to 32."""
    kind = getattr(solution(lab), LAYERS[lab])
    if lab == "gptq":
        return kind.from_linear(linear, group_size=next(size for size in (32, 24, 8) if linear.in_features % size == 0))
    return kind.from_linear(linear, sparsity=0.5) if lab == "dds" else kind.from_linear(linear)


def linear_layer(in_features: int, out_features: int, bias: bool = False) -> torch.nn.Linear:
    torch.manual_seed(in_features + out_features)
    return torch.nn.Linear(in_features, out_features, bias=bias)


def tie_free(*shape: int, seed: int = 0) -> torch.Tensor:
    """fp16 activations whose int8 form is beyond doubt: scales of 2^-5, and x / scale never near a tie."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-126, 127, shape, generator=generator) + torch.randint(-3, 4, shape, generator=generator) / 8
    x[..., 0] = 127.0
    return (x / 32).to(torch.float16)


def dense_weight(lab: str, layer: Any) -> torch.Tensor:
    """fp64 [N, K]: the weight that a layer's buffers stand for, by code other than the layer's own."""
    weight: torch.Tensor
    if lab == "w8a8":
        weight = layer.qweight.double() * layer.weight_scale.double()[:, None]
    elif lab == "w4a16":
        k = torch.arange(layer.in_features)
        nibble = (layer.qweight.long()[k // 8] >> (4 * (k % 8))[:, None]) & 0xF
        weight = (torch.where(nibble > 7, nibble - 16, nibble).double() * layer.scales.double()).t()
    elif lab == "w8a16":
        weight = layer.qweight.double() * layer.scales.double()[:, None]
    elif lab == "gptq":
        k, n = torch.arange(layer.in_features), torch.arange(layer.out_features)
        group = k // layer.group_size
        nibble = (layer.qweight.long()[k // 8] >> (4 * (k % 8))[:, None]) & 0xF
        zero = (layer.qzeros.long()[:, n // 8] >> (4 * (n % 8))) & 0xF
        weight = ((nibble - zero[group] - 1).double() * layer.scales.double()[group]).t()
    else:
        shape = (layer.out_features, layer.in_features)
        blocks = (layer.crow_indices, layer.col_indices, layer.values.double())
        weight = torch.sparse_bsr_tensor(*blocks, shape).to_dense()
    return weight


def assert_close(y: torch.Tensor, a: torch.Tensor, w: torch.Tensor, *, rounded: bool = False) -> None:
    """y is A W^T, an fp32 sum as fp16. rounded: elements of W may have been rounded to fp16 too, each by itself.

    Those errors seldom pass four times the root of the sum of squares.
    """
    exact = a.double() @ w.t()
    bound = 2.0**-11 * exact.abs() + a.shape[-1] * 2.0**-23 * (a.double().abs() @ w.abs().t()) + 2.0**-25
    if rounded:
        bound += 2.0**-11 * 4 * (a.double().square() @ w.square().t()).sqrt()
    error = (y.double() - exact).abs()
    worst = (error / bound).max().item()
    assert torch.isfinite(y).all()
    assert worst <= 1, f"error is {worst:.3g} times the bound"


# Checks that run interpreted. Each takes the lab's name; a failed one raises.


def check_leading_dimensions(lab: str) -> None:
    layer = layer_of(lab, linear_layer(96, 32))
    for leading in ((), (3,), (2, 1, 3)):
        x = tie_free(*leading, 96)
        y = layer(x)
        assert (y.shape, y.dtype) == ((*leading, 32), torch.float16)
        assert_close(y.view(-1, 32), quantised(lab, x.view(-1, 96)), dense_weight(lab, layer), rounded=lab == "gptq")


def check_no_rows(lab: str) -> None:
    assert layer_of(lab, linear_layer(32, 64))(torch.empty(2, 0, 32, dtype=torch.float16)).shape == (2, 0, 64)


def check_bias(lab: str) -> None:
    linear = linear_layer(64, 96, bias=True)
    layer = layer_of(lab, linear)
    x = tie_free(5, 64)
    without = layer(x) - layer.bias
    layer.bias = None
    assert (layer(x) - without).abs().max() <= 2.0**-9 * without.abs().max()
    assert torch.equal(linear.bias.half(), layer_of(lab, linear).bias)


def check_state_dict(lab: str) -> None:
    layer = layer_of(lab, linear_layer(64, 96, bias=True))
    options = {"group_size": layer.group_size} if lab == "gptq" else {}
    other = getattr(solution(lab), LAYERS[lab])(64, 96, bias=True, **options)
    other.load_state_dict(layer.state_dict())
    x = tie_free(3, 64)
    assert torch.equal(layer(x), other(x))


def check_strided_input(lab: str) -> None:
    layer = layer_of(lab, linear_layer(64, 96))
    x = tie_free(6, 64)
    wide = torch.full((6, 100), torch.nan, dtype=torch.float16)
    wide[:, 7:71] = x
    expected = layer(x)
    assert torch.equal(layer(wide[:, 7:71]), expected)
    assert torch.equal(layer(x.t().contiguous().t()), expected)
    assert torch.equal(layer(x.repeat_interleave(2, dim=1)[:, ::2]), expected)


def check_zero_rows(lab: str) -> None:
    linear = linear_layer(64, 96)
    with torch.no_grad():
        linear.weight[5:40] = 0
        linear.weight[41] = 1e-9
    layer = layer_of(lab, linear)
    x = tie_free(3, 64)
    x[1] = 0
    y = layer(x)
    assert torch.isfinite(y).all()
    assert not y[1].any()
    assert not y[:, 5:40].any()
    assert y[:, 41].abs().max() < 1e-5


def check_any_output(lab: str) -> None:
    """The layer's launch finds whatever memory holds, and slices of K are added all the same."""
    x, layer = tie_free(5, 96), layer_of(lab, linear_layer(96, 64))
    expected = layer(x)
    for config in {config.kwargs.get("SPLIT_K", 1): config for config in solution(lab).CONFIGS}.values():
        y = torch.full((5, 64), torch.nan, dtype=torch.float16)
        launch(lab, layer, x, y, config)
        assert (y - expected).abs().max() <= 2.0**-8 * expected.abs().max(), str(config)


def check_naive(lab: str) -> None:
    """The oracle agrees with fp64 too."""
    layer, x = layer_of(lab, linear_layer(96, 64)), tie_free(7, 96)
    module = solution(lab)
    if lab == "w8a8":
        y = module.naive(x, layer.qweight.t(), torch.full((7,), 2.0**-5), layer.weight_scale)
    elif lab == "w4a16":
        y = module.naive(x, layer.qweight, layer.scales)
    elif lab == "w8a16":
        y = module.naive(x, layer.qweight.t(), layer.scales)
    elif lab == "gptq":
        y = module.naive(x, layer.qweight, layer.scales, layer.qzeros)
    else:
        y = module.naive(x, layer.values, layer.crow_indices, layer.col_indices)
    assert_close(y, quantised(lab, x), dense_weight(lab, layer))


def check_rounds_to_even(lab: str) -> None:
    """w8a8: x / s exactly between two integers goes to the even one, and beyond the range to -128 and 127."""
    halves = torch.arange(-135.5, 136.5)
    x = (halves / 32).to(torch.float16)[None, :].repeat(2, 1)
    layer = solution(lab).QuantizedLinear_w8a8(272, 272)
    layer.qweight = torch.eye(272, dtype=torch.int8)
    for config in solution(lab).CONFIGS:
        y = torch.zeros(2, 272, dtype=torch.float16)
        launch(lab, layer, x, y, config)
        assert torch.equal(y[0] * 32, torch.round(halves).clamp(-128, 127).half()), str(config)


def check_input_scales(lab: str) -> None:
    """w8a8: the kernel for the activations' scales gives those of PyTorch to the bit, for K beyond a block, with tails, strided."""
    module = solution(lab)
    x = torch.randn(7, 330, generator=torch.Generator().manual_seed(3)).to(torch.float16)
    x[2] = 0
    x[3, 329] = -60000
    for view in (x, x[:, ::2], x.t().contiguous().t(), x[:, :16]):
        scale = torch.full((7,), torch.nan)
        module.ROW_SCALES[(7,)](view, scale, view.shape[1], *view.stride(), BLOCK_K=64)
        assert torch.equal(scale, module.row_scales(view))


CHECKS: dict[str, tuple[Callable[[str], None], ...]] = {
    lab: (
        check_leading_dimensions, check_no_rows, check_bias, check_state_dict, check_strided_input,
        check_zero_rows, check_naive, check_any_output, *((check_rounds_to_even, check_input_scales) if lab == "w8a8" else ()),
    )
    for lab in LAYERS
}


def quantised(lab: str, x: torch.Tensor) -> torch.Tensor:
    """What the kernel multiplies for tie-free activations."""
    return torch.round(x.double() * 32) / 32 if lab == "w8a8" else x.double()


def operands(lab: str, layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What the kernel is given but Y; w8a8 the scales of tie-free activations."""
    if lab == "w8a8":
        return [x, layer.qweight.t(), torch.full((x.shape[0],), 2.0**-5), layer.weight_scale]
    if lab == "dds":
        return [x, layer.values, layer.crow_indices, layer.col_indices]
    if lab == "gptq":
        return [x, layer.qweight, layer.scales, layer.qzeros]
    return [x, layer.qweight.t() if lab == "w8a16" else layer.qweight, layer.scales]


def launch(lab: str, layer: Any, x: torch.Tensor, y: torch.Tensor, config: Any) -> None:
    """The layer's launch with one config alone."""
    module = solution(lab)
    configs, module.CONFIGS = module.CONFIGS, [config]
    module.launch(*operands(lab, layer, x), y)
    module.CONFIGS = configs


# The other side: pytest runs the program once for each lab and reads its answers.


@pytest.fixture(scope="module")
def interpreted() -> Callable[[str], dict[str, str | None]]:
    """What came of each interpreted check of a lab: None, or the traceback. A lab that is not asked for is not run."""

    @cache
    def answers(lab: str) -> dict[str, str | None]:
        found: dict[str, str | None] = json.loads(python("-m", __name__, lab, seconds=SECONDS, TRITON_INTERPRET="1", OMP_NUM_THREADS="1"))
        return found

    return answers


@pytest.mark.xdist_group("layers")
@pytest.mark.parametrize(("lab", "name"), [(lab, check.__name__) for lab, checks in CHECKS.items() for check in checks])
def test_interpreted(lab: str, name: str, interpreted: Callable[[str], dict[str, str | None]]) -> None:
    fault = interpreted(lab)[name]
    if fault and TOO_NEW in fault:
        pytest.skip("Triton 3.6's own interpreter does not run with this NumPy")
    assert fault is None, fault


# Errors come before any launch, so these need no interpreter.


@pytest.mark.parametrize("lab", LAYERS)
def test_sizes_that_do_not_divide(lab: str) -> None:
    wrong = MULTIPLE_OF[lab] // 2
    for sizes in ((wrong, 64), (64, wrong), (0, 64)):
        with pytest.raises(ValueError, match=f"expected positive multiples of {MULTIPLE_OF[lab]}; pad"):
            getattr(solution(lab), LAYERS[lab])(*sizes)


@pytest.mark.parametrize("lab", LAYERS)
def test_another_module_than_linear(lab: str) -> None:
    kind = getattr(solution(lab), LAYERS[lab])
    with pytest.raises(TypeError, match=r"found Conv2d, expected torch.nn.Linear; pass such a layer"):
        kind.from_linear(torch.nn.Conv2d(1, 1, 1))


@pytest.mark.parametrize("lab", LAYERS)
def test_input_of_another_dtype_or_shape(lab: str) -> None:
    layer = layer_of(lab, linear_layer(64, 32))
    with pytest.raises(TypeError, match=r"found x in torch.float32, expected torch.float16; call x.half\(\)"):
        layer(torch.zeros(2, 64))
    for shape in ((2, 65), (), (64, 2)):
        with pytest.raises(ValueError, match=r"expected \(..., 64\); check which layer"):
            layer(torch.zeros(shape, dtype=torch.float16))


@pytest.mark.parametrize("lab", LAYERS)
def test_input_on_another_device(lab: str) -> None:
    with pytest.raises(ValueError, match="found x on meta, expected cpu where the weight is; move one of them"):
        layer_of(lab, linear_layer(64, 32))(torch.zeros(2, 64, dtype=torch.float16, device="meta"))


@pytest.mark.parametrize("lab", LAYERS)
def test_cpu_tensor_without_interpreter(lab: str) -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("this run interprets kernels")
    with pytest.raises(ValueError, match=r"found x on cpu and a kernel compiled for a GPU.*set TRITON_INTERPRET=1"):
        layer_of(lab, linear_layer(64, 32))(torch.zeros(2, 64, dtype=torch.float16))


@pytest.mark.parametrize(("lab", "convert"), [("w8a8", "half"), ("w4a16", "float"), ("dds", "float"), ("w8a16", "float"),
                                              ("gptq", "float")])
def test_layer_converted_to_another_dtype(lab: str, convert: str) -> None:
    layer = getattr(layer_of(lab, linear_layer(64, 32)), convert)()
    with pytest.raises(TypeError, match=r"expected torch.float"):
        layer(torch.zeros(2, 64, dtype=torch.float16))


@pytest.mark.parametrize("lab", LAYERS)
def test_weight_that_is_not_finite(lab: str) -> None:
    linear = linear_layer(64, 32)
    with torch.no_grad():
        linear.weight[3, 4] = float("inf")
    with pytest.raises(ValueError, match="expected"):
        layer_of(lab, linear)


def test_sparse_from_linear_arguments() -> None:
    kind, linear = solution("dds").SparseLinear, linear_layer(64, 96)
    mask = torch.ones(3, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="found neither sparsity nor mask, expected exactly one"):
        kind.from_linear(linear)
    with pytest.raises(ValueError, match="found both sparsity and mask, expected exactly one"):
        kind.from_linear(linear, sparsity=0.5, mask=mask)
    with pytest.raises(ValueError, match="found sparsity=90, expected 0 to 1"):
        kind.from_linear(linear, sparsity=90)
    with pytest.raises(ValueError, match=r"found a mask of shape \(2, 3\), expected \(3, 2\)"):
        kind.from_linear(linear, mask=mask.t())
    with pytest.raises(TypeError, match=r"found a mask in torch.float32, expected torch.bool"):
        kind.from_linear(linear, mask=mask.float())


def main(lab: str) -> None:
    """Runs the interpreted checks of a lab; prints {name: null or traceback}."""
    answers: dict[str, str | None] = {}
    for check in CHECKS[lab]:
        try:
            check(lab)
            answers[check.__name__] = None
        except Exception:
            answers[check.__name__] = traceback.format_exc(limit=-4)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
