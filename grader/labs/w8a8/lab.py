"""W8A8: int8 weights, activations quantised to int8 inside the kernel. Y = (q_x q_w^T) s_x s_w."""

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
from grader.labs.tolerance import matmul_reference
from grader.model import Case, Parameter, Problem, Reference

TIE_WIDTH = 4 * 127 * 2.0**-24
"""x / s computed as a product with a reciprocal is off by a few units in the last place of at most 127."""

CASES = (
    Case("one_tile", "each of your configs on one small, aligned tile", 64, 64, 96, configs="all"),
    Case("several_tiles", "your configs on several tiles in M, N and K, sizes that tiles divide", 256, 512, 128, configs="most"),
    Case("single_token",
         "up to three of your configs on M = 1, as every other column of a wider matrix (stride_xk = 2); N and K end inside a tile",
         1, 240, 1168, x_layout="every_other", configs="three"),
    Case("odd_m", "a number of tokens that is not a multiple of any tile, every other column of a wider matrix", 133, 1152, 64,
         x_layout="every_other"),
    Case("n_tail", "N that ends inside a tile", 64, 208, 128),
    Case("k_tail", "a K more than twice as long as any timed one, which ends inside a tile", 20, 64, 8208,
         x="positive", w="positive"),
    Case("all_tails", "M, N and K that all end inside a tile", 33, 80, 208),
    Case("strided_rows", "X as a slice of a wider matrix (stride_xm > K, odd), more tokens than any timed case", 4107, 64, 64,
         x_layout="odd_slice", y_layout="odd_slice"),
    Case("transposed_x", "X as a transposed view (stride_xm = 1), few tokens, none positive", 3, 272, 128,
         x="negative", x_layout="transposed"),
    Case("strided_y", "Y as a slice of a wider matrix (stride_ym > N, odd), an N beyond all that are timed, few tokens, values that clamp",
         12, 4112, 80, x="saturating", x_layout="odd_slice", y_layout="odd_slice"),
    Case("outlier_rows", "rows of every kind, few tokens, X as a slice of a wider matrix, a large weight", 6, 1056, 1040,
         x="traps", w="traps", x_layout="column_slice"),
    Case("zero_rows", "rows of zeros, whose scale is 1; the smallest N and K", 64, 16, 16, x="zero_rows"),
    Case("saturating_scale", "a scale too small for its row, so that values clamp; X as a transposed view, tails in M and K", 136, 64, 1296,
         x="saturating", x_layout="transposed"),
    Case("rounding", "x / s at fractions of 3/4, where truncation is off by one; many tiles in M and N", 517, 528, 64,
         x="fractions", w="positive"),
    Case("scale_axes", "your configs on many tiles in M and N, and on scales of very different sizes",
         1104, 272, 64, x="graded", w="graded", configs="most"),
    Case("long_k", "each of your configs on a K longer than any timed one", 32, 32, 5120, x="positive", w="positive", configs="all"),
    Case("every_config", "each of your configs on rows of every kind: tails in M, in K and at the end of many columns, Y strided",
         16, 1040, 336, x="traps", w="traps", y_layout="column_slice", configs="all"),
    Case("every_config_tall", "each of your configs on more tokens than a tile has: tails everywhere, X transposed, with gaps, Y strided",
         301, 48, 576, x="traps", w="traps", x_layout="transposed_gaps", y_layout="column_slice", configs="all"),
    Case("persistent", "if your kernel is persistent, your configs of large tiles on 155 tiles of 128 x 128",
         3873, 528, 48, configs="few"),
    Case("whole_tiles_k_tail", "your configs on several tiles in M and N, which tiles divide, and a K that ends inside a tile",
         256, 512, 80, configs="most"),
    Case("contiguous_token", "one token, contiguous; N and K end inside a tile", 1, 208, 1040),
)  # fmt: skip

SPEED_CASES = (
    Case("speed_m16", "16 tokens, 4096 x 4096 weight, weights cold in L2", 16, 4096, 4096, launches=16),
    Case("speed_m512", "512 tokens, 4096 x 4096 weight", 512, 4096, 4096, launches=8),
    Case("speed_m4096", "4096 tokens, 4096 x 4096 weight", 4096, 4096, 4096, launches=4),
)


def inputs(case: Case, generator: torch.Generator, device: torch.device) -> dict[str, torch.Tensor]:
    """x fp16 [M, K]; qweight int8, the [K, N] view of a stored [N, K]; scales fp32 [M] and [N]."""
    w = normal(generator, case.N, case.K, device=device)
    if case.w == "positive":
        w[::2] = w[::2].abs() + 0.5
    elif case.w == "graded":
        w = w * torch.logspace(-5, 1, case.N, device=device)[:, None]
    elif case.w == "traps":
        w[3::8] = w[3::8].abs()
        w[5::8, 0] = 0
        w = w * (0.01 + 0.1 * torch.rand(case.N, generator=generator, device=device))[:, None]
    qweight, weight_scale = quantise_rows(w, 127)
    if case.w == "traps":
        qweight[1::8, ::5] = qweight[1::8, 1::5] = -128

    if case.x == "fractions":
        x, input_scale = _fractions(case, generator, device)
    else:
        if case.x in ("graded", "saturating"):
            x = normal(generator, case.M, case.K, device=device)
            if case.x == "graded":
                x = x * torch.logspace(1, -5, case.M, device=device)[:, None]
            x = x.to(torch.float16)
        else:
            x = activations(case, generator, device)
            if case.x == "traps":  # a row that is none of zeros may have a scale of 1, too
                x[6::8] = (x[6::8] * (127 / x[6::8].float().abs().amax(dim=1, keepdim=True))).to(torch.float16)
        peak = x.float().abs().amax(dim=1)
        input_scale = torch.where(peak > 0, peak / 127, torch.ones_like(peak))
        if case.x == "saturating":
            input_scale = input_scale * 0.4
        elif case.x == "traps":
            input_scale[4::8] *= 0.4
            input_scale[12::16] *= 0.005
            input_scale[7::16] *= 1e-6  # x / s beyond 2^23, where 1.5 * 2^23 rounds nothing

    return {
        "x_ptr": laid_out(x, case.x_layout),
        "qweight_ptr": qweight.to(torch.int8).t(),
        "input_scale_ptr": input_scale,
        "weight_scale_ptr": weight_scale,
    }


def _fractions(case: Case, generator: torch.Generator, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """x = s (q +- 3/4), to fp16's precision, with s from 1/40 to 1/20: truncation is off by one nearly everywhere."""
    scale = (1 + torch.rand(case.M, generator=generator, device=device)) / 40
    q = torch.randint(0, 126, (case.M, case.K), generator=generator, device=device).float()
    sign = torch.where(torch.arange(case.K, device=device) % 4 == 3, -1.0, 1.0)
    return (sign * (q + 0.75) * scale[:, None]).to(torch.float16), scale


SATURATING = 1
"""Timed rows of this kind have a scale of 0.4 of what it should be, so that their larger values clamp."""


def timed_inputs(case: Case, generator: torch.Generator, device: torch.device, launches: int, rare: bool) -> Stack:
    """Weights of all 256 values, scales that differ fourfold between channels, outlier and saturating rows of x."""
    x, kind = timed_activations(case, generator, device, launches)
    smallest, largest = torch.aminmax(x, dim=2)
    peak = torch.maximum(-smallest, largest).float()
    input_scale = torch.where(peak > 0, peak / 127, 1.0) * torch.where(kind == SATURATING, 0.4, 1.0)
    qweight = random_bytes(generator, device, launches, case.N, case.K).transpose(1, 2)
    weight_scale = uniform(generator, 2.0**-8, 2.0**-6, launches, case.N, device=device)
    return {"x_ptr": x, "qweight_ptr": qweight, "input_scale_ptr": input_scale, "weight_scale_ptr": weight_scale}


def project(stack: Stack, signs: torch.Tensor) -> Projected:
    """A (W^T R) with A = clamp(round(x / s)) s. Each x / s near a tie allows one quantum times a column of W."""
    input_scale, weight_scale = stack["input_scale_ptr"], stack["weight_scale_ptr"]
    ratio = stack["x_ptr"] / input_scale[:, :, None]
    rounded = torch.round(ratio)
    near_tie = ratio.sub_(rounded).abs_() >= 0.5 - 2 * TIE_WIDTH
    q = rounded.clamp_(-128, 127).to(torch.float16)
    column = half_product(stack["qweight_ptr"].to(torch.float16), weight_scale[:, :, None] * signs)
    widest = 128 * torch.linalg.vector_norm(weight_scale, dim=1, keepdim=True)
    return Projected(
        product=half_product(q, column) * input_scale[:, :, None],
        gain=input_scale * row_norms(q) * widest,
        permitted=input_scale * near_tie.sum(dim=2) * widest,
    )


def reference(problem: Problem, roundings: int) -> Reference:
    """fp64 product of the dequantised operands. Where x / s is within rounding of a tie, one quantum is permitted."""
    tensors = problem.tensors
    scale = tensors["input_scale_ptr"].double()[:, None]
    ratio = tensors["x_ptr"].double() / scale
    a = torch.round(ratio).clamp(-128, 127) * scale
    w = tensors["qweight_ptr"].t().double() * tensors["weight_scale_ptr"].double()[:, None]
    near_tie = ((ratio - torch.floor(ratio) - 0.5).abs() <= TIE_WIDTH) & (ratio.abs() < 128)
    return matmul_reference(a, w, roundings=roundings, permitted=(near_tie * scale) @ w.abs().t())


def baseline_weight(problem: Problem) -> torch.Tensor:
    """The weight in fp16 [N, K], dequantised."""
    scale = problem.tensors["weight_scale_ptr"][:, None]
    return (problem.tensors["qweight_ptr"].t().float() * scale).to(torch.float16)


LAB = Lab(
    id="w8a8",
    order=1,
    title="W8A8: int8 x int8 matrix product, activations quantised in the kernel",
    kernel="W8A8_MM",
    layer="QuantizedLinear_w8a8",
    parameters=(
        Parameter("x_ptr", "*fp16", ("M", "K")),
        Parameter("qweight_ptr", "*i8", ("K", "N")),
        Parameter("input_scale_ptr", "*fp32", ("M",)),
        Parameter("weight_scale_ptr", "*fp32", ("N",)),
        Parameter("y_ptr", "*fp16", ("M", "N")),
        *integers("M N K stride_xm stride_xk stride_wk stride_wn stride_ym stride_yn"),
    ),
    cases=CASES,
    speed_cases=SPEED_CASES,
    scalars=lambda case: sizes_and_strides(case, wk_wn=(1, case.K)),
    inputs=inputs,
    reference=reference,
    baseline_weight=baseline_weight,
    timed_inputs=timed_inputs,
    project=project,
    operand="int8",
)
