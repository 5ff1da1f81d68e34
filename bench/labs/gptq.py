"""What GPTQ is raced on and against: tinygemm, which PyTorch ships, and GemLite, both with groups of 128."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from bench.gemlite_tables import gemlite
from bench.peers import Call, Peer, first_call
from bench.shapes import Shape, square_weight
from grader.labs.gptq.packing import unpack_weight, unpack_zeros
from grader.model import Problem

GROUP = 128


def _grouped(M: int, launches: int, *, ladder: bool = False) -> Shape:
    shape = square_weight("gptq", M, 4096, launches, ladder=ladder)
    return replace(shape, case=replace(shape.case, group_size=GROUP))


SHAPES = (
    _grouped(1, 32, ladder=True),
    _grouped(16, 32, ladder=True),
    _grouped(64, 16, ladder=True),
    _grouped(256, 16),
)


def _weight(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The nibbles as uint8 [N, K]; scales and zero points, 1 to 16, fp16 [N, K / 128]."""
    q = unpack_weight(problem.tensors["qweight_ptr"]).t().to(torch.uint8)
    zeros = unpack_zeros(problem.tensors["zeros_ptr"]).t().to(torch.float16)
    return q.contiguous(), problem.tensors["scales_ptr"].t().contiguous(), zeros.contiguous()


def _tinygemm(problems: Sequence[Problem]) -> list[Call]:
    """Its weight is (q - 8) s + zero, in bf16: the zero is (8 - (z + 1)) s."""
    calls: list[Call] = []
    for problem in problems:
        q, scales, zeros = _weight(problem)
        packed = torch.ops.aten._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
        offsets = (8 - zeros.float()) * scales.float()
        scales_and_zeros = torch.stack([scales.float().t(), offsets.t()], dim=2).to(torch.bfloat16).contiguous()
        x = problem.tensors["x_ptr"].to(torch.bfloat16)
        calls.append(partial(torch.ops.aten._weight_int4pack_mm, x, packed, GROUP, scales_and_zeros))
    return calls


def _gemlite(problems: Sequence[Problem]) -> list[Call]:
    helper = gemlite().helper
    calls: list[Call] = []
    for problem in problems:
        q, scales, zeros = _weight(problem)
        layer = helper.A16Wn(device="cuda:0", dtype=torch.float16).from_weights(q, scales, zeros, 4, GROUP)
        calls.append(partial(layer, problem.tensors["x_ptr"]))
    return calls


PEERS = (
    Peer("tinygemm int4 g128 with zeros", "gptq", "torch._weight_int4pack_mm: bf16, its own packing", _tinygemm),
    Peer("GemLite A16W4 g128 with zeros", "gptq", "its h100 table", _gemlite, "gemlite", parts=1, precompile=first_call(_gemlite)),
)
