"""The warm-ups about numbers with fewer bits: the scales of rows, packing int4 into words, and unpacking them again."""

from __future__ import annotations

import torch

from grader.exercises.opening.matrices import BLOCK, BLOCK_K, K_LONG, M_TALL, strided_matrix, with_strides
from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Step, stored, tensor

WORDS = 16
PACKED, UNPACKED = f"int32 [{WORDS}]", f"int32 [{WORDS}, 8]"


def _scales_inputs(generator: torch.Generator) -> Inputs:
    """The largest of a row is negative in every other row and lies in another tile from row to row; every seventh row is zero."""
    x = strided_matrix(generator, M_TALL, K_LONG)
    row = torch.arange(M_TALL)
    x[row, (31 * row) % K_LONG] = (5.0 + row % 4).to(torch.float16) * torch.where(row % 2 == 0, -1, 1)
    x[::7] = 0
    return {**with_strides(x), "M": M_TALL, "K": K_LONG}


def _scales(inputs: Inputs) -> torch.Tensor:
    """fp32 [M]: largest magnitude by 127; 1 for a row of zeros."""
    scale = tensor(inputs, "x_ptr").float().abs().amax(dim=1) / 127
    return torch.where(scale == 0, 1.0, scale)


def _nibbles(generator: torch.Generator) -> torch.Tensor:
    """int32 [WORDS, 8] of -8 to 7; the first word holds each of the lower half, the second of the upper."""
    q = torch.randint(-8, 8, (WORDS, 8), generator=generator)
    q[0], q[1] = torch.arange(-8, 0), torch.arange(0, 8)
    return q.to(torch.int32)


def _packed(q: torch.Tensor) -> torch.Tensor:
    return pack_int4(q.reshape(-1, 1)).view(WORDS)


def _unpacked(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")[:, None]).view(WORDS, 8)


STEPS = (
    Step(
        name="scales",
        function="row_scales",
        result="scale",
        right="This is the kernel that computes input_scale for W8A8: one number per row, by which X is divided.",
        hint="keep a vector of BLOCK_M maxima that begins with zeros; for each tile along K take "
        "tl.maximum of it and tl.max(tl.abs(tile), axis=1); at the end divide by 127, and let tl.where put 1 where the maximum is 0",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, K, out_ptr):
    row_scales(x_ptr, out_ptr, M, K, stride_row, stride_column, {BLOCK}, {BLOCK_K})
""",
        grid=(2, 1, 1),
        inputs=_scales_inputs,
        expected=_scales,
        tolerance=lambda inputs: _scales(inputs).double() * 1e-6,
    ),
    Step(
        name="pack",
        function="pack",
        result="words",
        returns=PACKED,
        right="Eight numbers, one word. The bits do not overlap, so that a sum is as good as an OR.",
        hint="q & 0xF keeps the lowest four bits, << 4 * i moves those of element i to their place, tl.sum(..., axis=1) joins them",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):
    words = pack(tl.load(q_ptr + tl.arange(0, {WORDS})[:, None] * 8 + tl.arange(0, 8)[None, :]))
{stored("words", PACKED)}""",
        inputs=lambda generator: {"q_ptr": _nibbles(generator)},
        expected=lambda inputs: _packed(tensor(inputs, "q_ptr")),
    ),
    Step(
        name="unpack",
        function="unpack",
        result="q",
        returns=UNPACKED,
        right="And back, signs included. W4A16 is this and a product.",
        hint="words[:, None] << 28 - 4 * i puts element i at the top of the word, and >> 28 brings it down with its sign",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):
    q = unpack(tl.load(words_ptr + tl.arange(0, {WORDS})))
{stored("q", UNPACKED)}""",
        inputs=lambda generator: {"words_ptr": _packed(_nibbles(generator))},
        expected=_unpacked,
    ),
)  # fmt: skip
