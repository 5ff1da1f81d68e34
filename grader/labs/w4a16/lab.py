"""W4A16: int4 weights packed eight to an int32 word, fp16 activations. Y = X (q s)^T."""

from __future__ import annotations

import torch

from grader.labs.contract import Lab, integers
from grader.labs.inputs import (
    activations,
    laid_out,
    layout_strides,
    normal,
    pack_int4,
    quantise_rows,
    random_bytes,
    sizes_and_strides,
    timed_activations,
    uniform,
    unpack_int4,
)
from grader.labs.projection import Projected, Stack, half_product, row_norms
from grader.labs.tolerance import U_FP16, weight_only_reference
from grader.model import Case, Parameter, Problem, Reference

CASES = (
    Case("one_tile", "each of your configs on one small, aligned tile", 64, 64, 96, configs="all"),
    Case("several_tiles", "your configs on several tiles in M, N and K, sizes that tiles divide", 256, 512, 128, configs="most"),
    Case("single_token",
         "up to three of your configs on M = 1, as every other column of a wider matrix (stride_xk = 2); N and K end inside a tile",
         1, 248, 520, x_layout="every_other", configs="three"),
    Case("odd_m", "a number of tokens that is not a multiple of any tile, every other column of a wider matrix", 133, 1152, 64,
         x_layout="every_other"),
    Case("n_tail", "N that ends inside a tile, a multiple of 8 only, words as a slice of a wider matrix", 60, 72, 136, w="nibbles"),
    Case("k_tail", "a K more than twice as long as any timed one, which ends inside a tile, a multiple of 8 only", 20, 72, 8232),
    Case("all_tails", "M, N and K that all end inside a tile", 33, 88, 168),
    Case("strided_rows", "X as a slice of a wider matrix (stride_xm > K, odd), more tokens than any timed case, many tiles", 547, 528, 72,
         x_layout="odd_slice"),
    Case("transposed_x", "X as a transposed view (stride_xm = 1), few tokens, none positive", 3, 272, 128,
         x="negative", x_layout="transposed"),
    Case("strided_y", "Y and the words as slices of wider matrices (stride_ym > N, odd), an N beyond all that are timed", 12, 4104, 72,
         w="nibbles", y_layout="odd_slice"),
    Case("every_nibble",
         "each of your configs on each value from -8 to 7 in each of the eight positions of a word, words as a slice of a wider matrix",
         32, 64, 192, w="nibbles", configs="all"),
    Case("outlier_rows", "rows of every kind, few tokens, X as a slice of a wider matrix, a large weight", 6, 1064, 1544,
         x="traps", w="traps", x_layout="column_slice"),
    Case("zero_rows", "rows of zeros, the smallest N and K", 60, 8, 8, x="zero_rows"),
    Case("channel_scales", "your configs on many tiles in M and N, and on scales from subnormal ones to those a million times as large",
         1104, 272, 64, w="graded", configs="most"),
    Case("long_k", "each of your configs on a K longer than any timed one, where an fp16 accumulator loses small terms", 32, 32, 5120,
         x="positive", w="positive", configs="all"),
    Case("large_sums", "sums of x q beyond fp16's range, with scales that bring them back into it; X as a transposed view", 136, 64, 1104,
         x="large", w="positive", x_layout="transposed"),
    Case("every_config", "each of your configs on rows of every kind: tails in M, in K and at the end of many columns, Y strided",
         16, 1040, 336, x="traps", w="traps", y_layout="column_slice", configs="all"),
    Case("every_config_tall", "each of your configs on more tokens than a tile has: tails everywhere, X transposed, with gaps, Y strided",
         301, 40, 584, x="traps", w="traps", x_layout="transposed_gaps", y_layout="column_slice", configs="all"),
    Case("persistent", "if your kernel is persistent, your configs of large tiles on 155 tiles of 128 x 128",
         3873, 520, 40, configs="few"),
    Case("whole_tiles_k_tail", "your configs on several tiles in M and N, which tiles divide, and a K that ends inside a tile",
         256, 512, 80, configs="most"),
    Case("contiguous_token", "one token, contiguous; N and K end inside a tile", 1, 216, 1032),
)  # fmt: skip

SPEED_CASES = (
    Case("speed_m1", "1 token, 4096 x 4096 weight, weights cold in L2", 1, 4096, 4096, launches=16),
    Case("speed_m16", "16 tokens, 4096 x 4096 weight, weights cold in L2", 16, 4096, 4096, launches=16),
    Case("speed_m512", "512 tokens, 4096 x 4096 weight", 512, 4096, 4096, launches=8),
)


def _words_layout(case: Case) -> str:
    return "column_slice" if case.w == "nibbles" else "contiguous"


def inputs(case: Case, generator: torch.Generator, device: torch.device) -> dict[str, torch.Tensor]:
    """x fp16 [M, K]; qweight int32 [K/8, N]; scales fp16 [N]."""
    if case.w == "nibbles":
        k = torch.arange(case.K, device=device)[:, None]
        n = torch.arange(case.N, device=device)[None, :]
        q = (k + k // 8 + n + n // 16) % 16 - 8
        scale = _scales(case, generator, device)
    elif case.w == "positive":
        q = torch.randint(1, 8, (case.K, case.N), generator=generator, device=device)
        q[:, 1::2] *= 2 * torch.randint(0, 2, q[:, 1::2].shape, generator=generator, device=device) - 1
        scale = _scales(case, generator, device) / 8
    else:
        w = normal(generator, case.N, case.K, device=device)
        if case.w == "traps":
            w = w / 2
        elif case.w == "graded":
            w = w * torch.logspace(-5.5, 1, case.N, device=device)[:, None]
        rows, scale = quantise_rows(w, 7)
        q = rows.t().contiguous()
        if case.w == "traps":
            q[:, 1::4] = torch.randint(-8, 8, q[:, 1::4].shape, generator=generator, device=device).to(torch.int32)
            q[:, 2::4] = torch.randint(4, 8, q[:, 2::4].shape, generator=generator, device=device).to(torch.int32)
            scale[1::4] = _scales(case, generator, device)[1::4]
            scale[2::4] = _scales(case, generator, device)[2::4] / 8
    x = laid_out(activations(case, generator, device), case.x_layout)
    qweight = laid_out(pack_int4(q), _words_layout(case))
    return {"x_ptr": x, "qweight_ptr": qweight, "scales_ptr": scale.to(torch.float16)}


def _scales(case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    return 0.05 + 0.05 * torch.rand(case.N, generator=generator, device=device)


def timed_inputs(case: Case, generator: torch.Generator, device: torch.device, launches: int, rare: bool) -> Stack:
    """Words of all bits: each value from -8 to 7 in each position. Scales differ fourfold; rows of x have outliers."""
    x, _ = timed_activations(case, generator, device, launches)
    qweight = random_bytes(generator, device, launches, case.K // 8, 4 * case.N).view(torch.int32)
    scales = uniform(generator, 2.0**-4, 2.0**-2, launches, case.N, device=device).to(torch.float16)
    return {"x_ptr": x, "qweight_ptr": qweight, "scales_ptr": scales}


SIGN_BITS, LOWER_NIBBLES = 0x88888888 - 2**32, 0x0F0F0F0F
"""Masks of a word: the sign of each nibble, and the lower nibble of each byte."""


def project(stack: Stack, signs: torch.Tensor) -> Projected:
    """A (W^T R). With its sign bit flipped a nibble is q + 8. Of byte b of a word, element 2 b is the lower nibble."""
    x, words, scales = stack["x_ptr"], stack["qweight_ptr"], stack["scales_ptr"].float()
    launches, rows, N = words.shape
    vectors = signs.shape[1]
    scaled = scales[:, :, None] * signs
    per_byte = (torch.eye(4, device=x.device)[None, None, :, :, None] * scaled[:, :, None, None, :]).view(
        launches, 4 * N, 4 * vectors
    )
    raised = words ^ SIGN_BITS
    halves = [
        half_product((part & LOWER_NIBBLES).view(torch.uint8).to(torch.float16), per_byte)
        for part in (raised, raised >> 4)
    ]
    column = torch.stack([half.view(launches, rows, 4, vectors) for half in halves], dim=3)
    column = column.view(launches, 8 * rows, vectors) - 8 * scaled.sum(dim=1, keepdim=True)
    gain = row_norms(x) * 8 * torch.linalg.vector_norm(scales, dim=1, keepdim=True)
    return Projected(half_product(x, column), gain, permitted=U_FP16 * gain)


def dequantised(problem: Problem) -> torch.Tensor:
    """The weight as float64 [N, K], exact."""
    q = unpack_int4(problem.tensors["qweight_ptr"]).t().double()
    return q * problem.tensors["scales_ptr"].double()[:, None]


def reference(problem: Problem, roundings: int) -> Reference:
    """fp64 product with the dequantised weight."""
    return weight_only_reference(problem.tensors["x_ptr"].double(), dequantised(problem), roundings=roundings)


LAB = Lab(
    id="w4a16",
    order=2,
    title="W4A16: fp16 activations, int4 weights unpacked in the kernel",
    kernel="W4A16_MM",
    layer="QuantLinear_w4a16",
    parameters=(
        Parameter("x_ptr", "*fp16", ("M", "K")),
        Parameter("qweight_ptr", "*i32", ("K // 8", "N")),
        Parameter("scales_ptr", "*fp16", ("N",)),
        Parameter("y_ptr", "*fp16", ("M", "N")),
        *integers("M N K stride_xm stride_xk stride_wk stride_wn stride_ym stride_yn"),
    ),
    cases=CASES,
    speed_cases=SPEED_CASES,
    scalars=lambda case: sizes_and_strides(case, wk_wn=layout_strides(case.K // 8, case.N, _words_layout(case))),
    inputs=inputs,
    reference=reference,
    baseline_weight=lambda problem: dequantised(problem).to(torch.float16),
    timed_inputs=timed_inputs,
    project=project,
)
