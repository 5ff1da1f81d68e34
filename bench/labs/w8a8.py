"""What W8A8 is raced on and against: torch._int_mm with quantising and rescaling around it, GemLite, Humming, torchao; and the
lab's own layer, which computes the activations' scales as theirs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch

from bench.gemlite_tables import gemlite
from bench.humming_layers import humming_layer
from bench.peers import Call, Peer, first_call, solution_module
from bench.shapes import square_weight
from grader.model import Problem

SHAPES = (
    square_weight("w8a8", 1, 4096, 32),
    square_weight("w8a8", 16, 4096, 32, ladder=True),
    square_weight("w8a8", 512, 4096, 16, ladder=True),
    square_weight("w8a8", 1024, 1024, 32),
    square_weight("w8a8", 4096, 4096, 4, ladder=True),
)

REMARK = (
    "The solution, its ladder, torch._int_mm alone and the three steps are given the activations' scales; the layers and torchao "
    "compute them inside their time."
)
"""What has to be known to compare the contestants."""

SMALLEST_ROWS = 32
"""torch._int_mm takes more than 16 rows; fewer are padded to this many."""


def _quantise(x: torch.Tensor, input_scale: torch.Tensor) -> torch.Tensor:
    """int8 [max(M, 32), K] of fp16 x [M, K] with the scales given, as the lab's kernel does it."""
    q = torch.clamp(torch.round(x.float() * (1.0 / input_scale)[:, None]), -128, 127).to(torch.int8)
    return torch.nn.functional.pad(q, (0, 0, 0, max(0, SMALLEST_ROWS - x.shape[0])))


def _three_steps(
    x: torch.Tensor, qweight: torch.Tensor, input_scale: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    """Quantise, multiply into an int32 [M, N] in memory, rescale to fp16."""
    product = torch._int_mm(_quantise(x, input_scale), qweight)[: x.shape[0]]
    return (product.float() * input_scale[:, None] * weight_scale[None, :]).to(torch.float16)


@cache
def _compiled() -> Callable[..., torch.Tensor]:
    return torch.compile(_three_steps, dynamic=False)


def _operands(problem: Problem) -> tuple[torch.Tensor, ...]:
    return tuple(problem.tensors[f"{name}_ptr"] for name in ("x", "qweight", "input_scale", "weight_scale"))


def _eager(problems: Sequence[Problem]) -> list[Call]:
    return [partial(_three_steps, *_operands(problem)) for problem in problems]


def _with_compile(problems: Sequence[Problem]) -> list[Call]:
    return [partial(_compiled(), *_operands(problem)) for problem in problems]


def _alone(problems: Sequence[Problem]) -> list[Call]:
    quantised = [_quantise(*_operands(problem)[::2]) for problem in problems]
    return [
        partial(torch._int_mm, q, problem.tensors["qweight_ptr"])
        for q, problem in zip(quantised, problems, strict=True)
    ]


def _gemlite(problems: Sequence[Problem]) -> list[Call]:
    helper = gemlite().helper
    calls: list[Call] = []
    for problem in problems:
        x, qweight, _, weight_scale = _operands(problem)
        layer = helper.A8W8_int8_dynamic(device="cuda:0", dtype=torch.float16).from_weights(
            qweight.t().contiguous(), scales=weight_scale[:, None].clone()
        )
        calls.append(partial(layer, x))
    return calls


def _humming(problems: Sequence[Problem]) -> list[Call]:
    calls: list[Call] = []
    for problem in problems:
        x, qweight, _, weight_scale = _operands(problem)
        calls.append(partial(humming_layer(qweight.t().int() + 128, weight_scale, 8, "int8"), x))
    return calls


def _layer(problems: Sequence[Problem]) -> list[Call]:
    kind = solution_module("w8a8").QuantizedLinear_w8a8
    calls: list[Call] = []
    for problem in problems:
        x, qweight, _, weight_scale = _operands(problem)
        layer = kind(*qweight.shape, device=x.device)
        layer.qweight, layer.weight_scale = qweight.t(), weight_scale
        calls.append(partial(layer, x))
    return calls


def _torchao(problems: Sequence[Problem]) -> list[Call]:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    calls: list[Call] = []
    for problem in problems:
        x, qweight, _, weight_scale = _operands(problem)
        N, K = qweight.t().shape
        layer = torch.nn.Linear(K, N, bias=False, device="cuda", dtype=torch.float16)
        layer.weight = torch.nn.Parameter((qweight.t().float() * weight_scale[:, None]).to(torch.float16), False)
        quantize_(layer, Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))
        calls.append(partial(_compiled_linear(), x, layer.weight))
    return calls


@cache
def _compiled_linear() -> Callable[..., torch.Tensor]:
    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.nn.functional.linear(x, weight)
        return y

    return torch.compile(linear, dynamic=False)


PEERS = (
    Peer("torch._int_mm alone", "w8a8", "int8 product into int32; quantising and rescaling left out", _alone, checked=False),
    Peer("quantise + _int_mm + rescale, eager", "w8a8", "unfused: the int32 product lies in memory", _eager),
    Peer("quantise + _int_mm + rescale, torch.compile", "w8a8", "the same three steps, compiled", _with_compile,
         parts=1, precompile=first_call(_with_compile)),
    Peer("GemLite A8W8 dynamic", "w8a8", "computes the activations' scales too; its h100 table", _gemlite, "gemlite",
         parts=1, precompile=first_call(_gemlite)),
    Peer("Humming W8A8 dynamic", "w8a8", "computes the activations' scales too", _humming, "humming",
         parts=1, precompile=first_call(_humming)),
    Peer("QuantizedLinear_w8a8", "w8a8", "the solution as a layer: computes the activations' scales too", _layer,
         parts=1, precompile=first_call(_layer)),
    Peer("torchao int8 dynamic, torch.compile", "w8a8", "computes the activations' scales too", _torchao, "torchao",
         parts=1, precompile=first_call(_torchao)),
)
