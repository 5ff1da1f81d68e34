"""What W8A16 is raced on and against: GemLite, Humming and torchao, all with a scale for each channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch

from bench.gemlite_tables import gemlite
from bench.humming_layers import humming_layer
from bench.peers import Call, Peer, first_call
from bench.shapes import square_weight
from grader.model import Problem

SHAPES = (
    square_weight("w8a16", 1, 4096, 32, ladder=True),
    square_weight("w8a16", 16, 4096, 32, ladder=True),
    square_weight("w8a16", 64, 4096, 16),
    square_weight("w8a16", 512, 4096, 16, ladder=True),
)


def _operands(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x fp16 [M, K], the stored weight int8 [N, K], the scales fp16 [N]."""
    tensors = problem.tensors
    return tensors["x_ptr"], tensors["qweight_ptr"].t().contiguous(), tensors["scales_ptr"]


def _gemlite(problems: Sequence[Problem]) -> list[Call]:
    helper = gemlite().helper
    calls: list[Call] = []
    for problem in problems:
        x, qweight, scales = _operands(problem)
        layer = helper.A16W8_INT8(device="cuda:0", dtype=torch.float16).from_weights(qweight, scales=scales[:, None].clone())
        calls.append(partial(layer, x))
    return calls


def _humming(problems: Sequence[Problem]) -> list[Call]:
    calls: list[Call] = []
    for problem in problems:
        x, qweight, scales = _operands(problem)
        calls.append(partial(humming_layer(qweight.int() + 128, scales, 8), x))
    return calls


def _torchao(problems: Sequence[Problem]) -> list[Call]:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    calls: list[Call] = []
    for problem in problems:
        x, qweight, scales = _operands(problem)
        N, K = qweight.shape
        layer = torch.nn.Linear(K, N, bias=False, device="cuda", dtype=torch.float16)
        layer.weight = torch.nn.Parameter((qweight.float() * scales.float()[:, None]).to(torch.float16), False)
        quantize_(layer, Int8WeightOnlyConfig(set_inductor_config=False))
        calls.append(partial(_compiled_linear(), x, layer.weight))
    return calls


@cache
def _compiled_linear() -> Callable[..., torch.Tensor]:
    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.nn.functional.linear(x, weight)
        return y

    return torch.compile(linear, dynamic=False)


PEERS = (
    Peer("GemLite A16W8", "w8a16", "its h100 table", _gemlite, "gemlite", parts=1, precompile=first_call(_gemlite)),
    Peer("Humming W8A16", "w8a16", "compiled when it is first called", _humming, "humming",
         parts=1, precompile=first_call(_humming)),
    Peer("torchao int8 weight-only, torch.compile", "w8a16", "quantises the dequantised weight again, per channel", _torchao, "torchao",
         parts=1, precompile=first_call(_torchao)),
)
