"""What W4A16 is raced on and against: tinygemm, which PyTorch ships, GemLite and Humming."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from bench.gemlite_tables import gemlite
from bench.humming_layers import humming_layer
from bench.peers import Call, Peer, first_call
from bench.shapes import square_weight
from grader.labs.inputs import unpack_int4
from grader.model import Problem

SHAPES = (
    square_weight("w4a16", 1, 4096, 32, ladder=True),
    square_weight("w4a16", 16, 4096, 32, ladder=True),
    square_weight("w4a16", 32, 4096, 32),
    square_weight("w4a16", 64, 4096, 16),
    square_weight("w4a16", 256, 4096, 16),
    square_weight("w4a16", 512, 4096, 16, ladder=True),
)

GROUP = 128
"""tinygemm and GemLite are at their best with a scale for each 128 weights of a row; the lab's scale of the row is repeated."""


def _weight(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """The nibbles plus 8 as uint8 [N, K], and the scales fp16 [N, K / 128]."""
    q = unpack_int4(problem.tensors["qweight_ptr"]).t().contiguous() + 8
    scales = problem.tensors["scales_ptr"][:, None].expand(-1, q.shape[1] // GROUP)
    return q.to(torch.uint8), scales.contiguous()


def _tinygemm(problems: Sequence[Problem]) -> list[Call]:
    calls: list[Call] = []
    for problem in problems:
        q, scales = _weight(problem)
        packed = torch.ops.aten._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
        scales = scales.t().to(torch.bfloat16)
        scales_and_zeros = torch.stack([scales, torch.zeros_like(scales)], dim=2).contiguous()
        x = problem.tensors["x_ptr"].to(torch.bfloat16)
        calls.append(partial(torch.ops.aten._weight_int4pack_mm, x, packed, GROUP, scales_and_zeros))
    return calls


def _gemlite(problems: Sequence[Problem]) -> list[Call]:
    helper = gemlite().helper
    calls: list[Call] = []
    for problem in problems:
        q, scales = _weight(problem)
        zeros = torch.full_like(scales, 8.0)
        layer = helper.A16Wn(device="cuda:0", dtype=torch.float16).from_weights(q, scales, zeros, 4, GROUP)
        calls.append(partial(layer, problem.tensors["x_ptr"]))
    return calls


def _humming(problems: Sequence[Problem]) -> list[Call]:
    calls: list[Call] = []
    for problem in problems:
        codes = unpack_int4(problem.tensors["qweight_ptr"]).t() + 8
        calls.append(partial(humming_layer(codes, problem.tensors["scales_ptr"], 4), problem.tensors["x_ptr"]))
    return calls


PEERS = (
    Peer("tinygemm int4 g128", "w4a16", "torch._weight_int4pack_mm: bf16, its own packing", _tinygemm),
    Peer("GemLite A16W4 g128", "w4a16", "its h100 table", _gemlite, "gemlite", parts=1, precompile=first_call(_gemlite)),
    Peer("Humming W4A16", "w4a16", "a scale for each channel, as the lab has it", _humming, "humming",
         parts=1, precompile=first_call(_humming)),
)
