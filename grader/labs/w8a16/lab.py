"""W8A16: int8 weights, one scale an output channel, fp16 activations. Y = X (q s)^T. A bonus lab."""

from __future__ import annotations

import torch

from grader.labs.contract import Lab, integers
from grader.labs.inputs import (
    activations,
    laid_out,
    normal,
    quantise_rows,
    random_bytes,
    sizes_and_strides,
    timed_activations,
    uniform,
)
from grader.labs.projection import Projected, Stack, half_product, row_norms
from grader.labs.tolerance import U_FP16, weight_only_reference
from grader.model import Case, Parameter, Problem, Reference

CASES = (
    Case("one_tile", "each of your configs on one small, aligned tile", 64, 64, 96, configs="all"),
    Case("several_tiles", "your configs on several tiles in M, N and K, sizes that tiles divide", 256, 512, 128, configs="most"),
    Case("single_token",
         "up to three of your configs on M = 1, as every other column of a wider matrix (stride_xk = 2); N and K end inside a tile",
         1, 1008, 528, x_layout="every_other", configs="three"),
    Case("odd_m", "a number of tokens that is not a multiple of any tile, every other column of a wider matrix", 133, 1152, 64,
         x_layout="every_other"),
    Case("n_tail", "N that ends inside a tile", 64, 208, 128),
    Case("k_tail", "a K more than twice as long as any timed one, which ends inside a tile", 20, 64, 8208),
    Case("all_tails", "M, N and K that all end inside a tile", 33, 80, 176),
    Case("strided_rows", "X as a slice of a wider matrix (stride_xm > K, odd), more tokens than any timed case, many tiles", 547, 528, 64,
         x_layout="odd_slice"),
    Case("transposed_x", "X as a transposed view (stride_xm = 1), few tokens, none positive", 3, 272, 128,
         x="negative", x_layout="transposed"),
    Case("strided_y", "Y as a slice of a wider matrix (stride_ym > N, odd), an N beyond all that are timed", 12, 4112, 64,
         y_layout="odd_slice"),
    Case("strided_weight", "the weight as a slice of a wider matrix (stride_wn > K), X as a transposed view, tails in M, N and K",
         136, 80, 1040, w="strided", x_layout="transposed"),
    Case("every_integer", "each value from -128 to 127, in each of four neighbouring places", 32, 64, 512, w="integers"),
    Case("outlier_rows", "rows of every kind, few tokens, X as a slice of a wider matrix, a large weight", 6, 1056, 1552,
         x="traps", w="traps", x_layout="column_slice"),
    Case("zero_rows", "rows of zeros, the smallest N and K", 64, 16, 16, x="zero_rows"),
    Case("channel_scales", "your configs on many tiles in M and N, and on scales from subnormal ones to those 100 000 times as large",
         1104, 272, 64, w="graded", configs="most"),
    Case("long_k", "each of your configs on a K longer than any timed one, where an fp16 accumulator loses small terms", 32, 96, 4608,
         x="positive", w="positive", configs="all"),
    Case("large_sums", "sums of x q beyond fp16's range, with scales that bring them back into it", 32, 64, 512,
         x="large", w="small_scales"),
    Case("every_config", "each of your configs on rows of every kind: tails in M, in K and at the end of many columns, Y and W strided",
         16, 1040, 336, x="traps", w="traps", y_layout="column_slice", configs="all"),
    Case("every_config_tall",
         "each of your configs on more tokens than a tile has: tails everywhere, X transposed, with gaps, Y and W strided",
         301, 48, 576, x="traps", w="traps", x_layout="transposed_gaps", y_layout="column_slice", configs="all"),
    Case("persistent", "if your kernel is persistent, your configs of large tiles on 155 tiles of 128 x 128",
         3873, 528, 48, configs="few"),
    Case("whole_tiles_k_tail", "your configs on several tiles in M and N, which tiles divide, and a K that ends inside a tile",
         256, 512, 80, configs="most"),
    Case("contiguous_token", "one token, contiguous; N and K end inside a tile", 1, 1008, 528),
)  # fmt: skip

SPEED_CASES = (
    Case("speed_m1", "1 token, 4096 x 4096 weight, weights cold in L2", 1, 4096, 4096, launches=16),
    Case("speed_m16", "16 tokens, 4096 x 4096 weight, weights cold in L2", 16, 4096, 4096, launches=16),
    Case("speed_m512", "512 tokens, 4096 x 4096 weight", 512, 4096, 4096, launches=8),
)

STRIDED = ("strided", "traps")
"""Recipes whose weight is a slice of a wider matrix."""


def scalars(case: Case) -> dict[str, int]:
    """Sizes and strides of a case, in elements. Rows of the stored weight begin at multiples of 16 bytes."""
    return sizes_and_strides(case, wk_wn=(1, 2 * case.K + 16 if case.w in STRIDED else case.K))


def inputs(case: Case, generator: torch.Generator, device: torch.device) -> dict[str, torch.Tensor]:
    """x fp16 [M, K]; qweight int8, the [K, N] view of a stored [N, K]; scales fp16 [N]."""
    q, scale = _weight(case, generator, device)
    stored = torch.zeros(case.N, scalars(case)["stride_wn"], dtype=torch.int8, device=device)[:, : case.K]
    stored.copy_(q)
    x = laid_out(activations(case, generator, device), case.x_layout)
    return {"x_ptr": x, "qweight_ptr": stored.t(), "scales_ptr": scale.to(torch.float16)}


def _weight(case: Case, generator: torch.Generator, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers [N, K] of -128 to 127 and scales float [N], by the recipe `case.w`.

    normal, strided: a normal weight, quantised. graded: its rows differ 300 000-fold, the smallest scales are subnormal. integers: every
    value in every place of four. positive, small_scales: every other row positive, so that sums grow; small_scales keeps them in fp16's
    range. traps: by row, in turn, a normal weight; extreme integers; positive ones with a small scale; a normal weight again.
    """
    if case.w == "integers":
        n, k = torch.arange(case.N, device=device)[:, None], torch.arange(case.K, device=device)[None, :]
        return (k + k // 4 + 37 * n) % 256 - 128, _scales(case, generator, device)
    if case.w in ("positive", "small_scales"):
        q = torch.randint(1, 128, (case.N, case.K), generator=generator, device=device)
        q[1::2] *= 2 * torch.randint(0, 2, q[1::2].shape, generator=generator, device=device) - 1
        return q, _scales(case, generator, device) / (16 if case.w == "small_scales" else 2)
    w = normal(generator, case.N, case.K, device=device)
    if case.w == "traps":
        w = w / 2
    elif case.w == "graded":
        w = w * torch.logspace(-4.5, 1, case.N, device=device)[:, None]
    q, scale = quantise_rows(w, 127)
    if case.w == "traps":
        q[1::4] = torch.randint(-128, 128, q[1::4].shape, generator=generator, device=device).to(torch.int32)
        q[1::4, ::5] = -128
        q[2::4] = torch.randint(64, 128, q[2::4].shape, generator=generator, device=device).to(torch.int32)
        scale[1::4] = _scales(case, generator, device)[1::4] / 4
        scale[2::4] = _scales(case, generator, device)[2::4] / 16
    return q, scale


def _scales(case: Case, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    return uniform(generator, 0.008, 0.016, case.N, device=device)


def timed_inputs(case: Case, generator: torch.Generator, device: torch.device, launches: int, rare: bool) -> Stack:
    """Weights of all 256 values, scales that differ fourfold between channels, rows of x with outliers."""
    x, _ = timed_activations(case, generator, device, launches)
    qweight = random_bytes(generator, device, launches, case.N, case.K).transpose(1, 2)
    scales = uniform(generator, 2.0**-8, 2.0**-6, launches, case.N, device=device).to(torch.float16)
    return {"x_ptr": x, "qweight_ptr": qweight, "scales_ptr": scales}


def project(stack: Stack, signs: torch.Tensor) -> Projected:
    """A (W^T R), the scales multiplied into the signs. fp16 holds the integers exactly."""
    x, scales = stack["x_ptr"], stack["scales_ptr"].float()
    column = half_product(stack["qweight_ptr"].to(torch.float16), scales[:, :, None] * signs)
    gain = row_norms(x) * 128 * torch.linalg.vector_norm(scales, dim=1, keepdim=True)
    return Projected(half_product(x, column), gain, permitted=U_FP16 * gain)


def dequantised(problem: Problem) -> torch.Tensor:
    """The weight as float64 [N, K], exact."""
    return problem.tensors["qweight_ptr"].t().double() * problem.tensors["scales_ptr"].double()[:, None]


def reference(problem: Problem, roundings: int) -> Reference:
    """fp64 product with the dequantised weight."""
    return weight_only_reference(problem.tensors["x_ptr"].double(), dequantised(problem), roundings=roundings)


LAB = Lab(
    id="w8a16",
    order=4,
    title="W8A16: fp16 activations, int8 weights converted in the kernel",
    kernel="W8A16_MM",
    layer="QuantLinear_w8a16",
    parameters=(
        Parameter("x_ptr", "*fp16", ("M", "K")),
        Parameter("qweight_ptr", "*i8", ("K", "N")),
        Parameter("scales_ptr", "*fp16", ("N",)),
        Parameter("y_ptr", "*fp16", ("M", "N")),
        *integers("M N K stride_xm stride_xk stride_wk stride_wn stride_ym stride_yn"),
    ),
    cases=CASES,
    speed_cases=SPEED_CASES,
    scalars=scalars,
    inputs=inputs,
    reference=reference,
    baseline_weight=lambda problem: dequantised(problem).to(torch.float16),
    timed_inputs=timed_inputs,
    project=project,
    bonus=True,
)
