"""GPTQ: the format of GPTQ checkpoints, int4 weights with a scale and a zero point for each group along K."""

from __future__ import annotations

import torch

from grader.labs.contract import Lab, integers
from grader.labs.gptq.packing import levels, pack_zeros, spread
from grader.labs.inputs import (
    activations,
    laid_out,
    layout_strides,
    normal,
    pack_int4,
    random_bytes,
    sizes_and_strides,
    timed_activations,
    uniform,
)
from grader.labs.projection import Projected, Stack, half_product, row_norms
from grader.labs.tolerance import U_FP16, weight_only_reference
from grader.model import Case, Parameter, Problem, Reference

CASES = (
    Case("one_tile", "each of your configs on one small, aligned tile, one group of 128", 64, 128, 128, group_size=128, configs="all"),
    Case("several_tiles", "your configs on several tiles in M, N and K, sizes that tiles divide", 256, 512, 128, group_size=128,
         configs="most"),
    Case("single_token", "up to three of your configs on M = 1, as every other column of a wider matrix (stride_xk = 2), groups of 64; "
         "N and K end inside a tile",
         1, 1040, 1088, x="positive", w="positive", x_layout="every_other", group_size=64, configs="three"),
    Case("odd_m", "a number of tokens that is not a multiple of any tile, groups of 64, every other column of a wider matrix",
         133, 1152, 64, x_layout="every_other", group_size=64),
    Case("n_tail", "N that ends inside a tile", 64, 72, 128, group_size=64),
    Case("k_tail", "K that ends inside a tile, a multiple of 8 only, in 257 groups of 8, the smallest", 20, 128, 2056, group_size=8),
    Case("all_tails", "each of your configs on M, N and K that all end inside a tile, with groups of 56, which end inside one too",
         33, 88, 168, group_size=56, configs="all"),
    Case("groups_of_32", "groups of 32, shorter than most tiles, and a K that ends inside a tile", 80, 128, 224, group_size=32),
    Case("groups_of_64", "groups of 64, and a K that ends inside a tile, X as a transposed view", 136, 64, 1088, w="positive",
         x_layout="transposed", group_size=64),
    Case("one_group", "one group of all of K, more than twice as long as any timed one", 20, 136, 8208,
         w="positive", group_size=8208),
    Case("strided_rows", "X as a slice of a wider matrix (stride_xm > K, odd)", 64, 96, 128, x_layout="odd_slice", group_size=64),
    Case("transposed_x", "X as a transposed view (stride_xm = 1), few tokens, none positive", 3, 544, 128,
         x="negative", x_layout="transposed", group_size=64),
    Case("strided_y", "Y as a slice of a wider matrix (stride_ym > N, odd), an N beyond all that are timed", 16, 4104, 64,
         y_layout="odd_slice", group_size=64),
    Case("strided_scales", "scales as a transposed view, zeros and words as slices of wider matrices", 64, 96, 192,
         w="strided", group_size=64),
    Case("every_nibble", "each value from 0 to 15 in each of the eight positions of a word", 64, 64, 192,
         w="nibbles", group_size=64),
    Case("every_zero", "each stored zero from 0 to 15 in each of the eight positions of a word, groups of 16", 32, 64, 1024,
         w="zeros", group_size=16),
    Case("zeros_of_16", "stored zeros of 15 throughout: 16 is subtracted, nothing wraps; the smallest N and K", 32, 8, 8,
         w="zeros_of_16", group_size=8),
    Case("group_scales", "your configs on many tiles in M and N, and on scales from subnormal ones to those 100 000 times as large",
         1104, 272, 64, w="graded", group_size=32, configs="most"),
    Case("outlier_rows", "each of your configs on rows with entries 100 times as large, groups of 192 and a K longer than any timed one",
         32, 32, 4608, x="outliers", group_size=192, configs="all"),
    Case("long_k", "each of your configs on few tokens and a long K, where an fp16 accumulator loses small terms", 5, 128, 3072,
         x="positive", w="positive", group_size=128, configs="all"),
    Case("large_sums", "sums of x (q - z) of a group beyond fp16's range, with scales that bring them back into it", 32, 64, 512,
         x="large", w="positive", group_size=128),
    Case("every_config", "each of your configs on rows of every kind with groups of 64: tails in M, many columns, all strided",
         16, 1040, 320, x="traps", w="traps", y_layout="column_slice", group_size=64, configs="all"),
    Case("every_config_tall", "each of your configs on more tokens than a tile has, groups of 264 that end inside a tile: "
         "tails everywhere, X transposed, with gaps, Y strided",
         301, 40, 528, x="traps", w="traps", x_layout="transposed_gaps", y_layout="column_slice", group_size=264, configs="all"),
    Case("every_config_groups", "each of your configs on groups of 8, the smallest: few tokens, a K that ends inside a tile, X strided",
         13, 192, 416, x="traps", w="traps", x_layout="column_slice", group_size=8, configs="all"),
    Case("persistent", "if your kernel is persistent, your configs of large tiles on 155 tiles of 128 x 128",
         3873, 520, 96, group_size=32, configs="few"),
    Case("whole_tiles_k_tail", "your configs on several tiles in M and N, which tiles divide, and a K that ends inside a tile",
         256, 512, 80, group_size=16, configs="most"),
    Case("contiguous_token", "one token, contiguous; N and K end inside a tile", 1, 1040, 1088, x="positive", w="positive",
         group_size=64),
)  # fmt: skip

SPEED_CASES = (
    Case("speed_m1", "1 token, 4096 x 4096 weight in groups of 128, weights cold in L2", 1, 4096, 4096, launches=16, group_size=128),
    Case("speed_m16", "16 tokens, 4096 x 4096 weight in groups of 128, weights cold in L2", 16, 4096, 4096, launches=16,
         group_size=128),
    Case("speed_m64", "64 tokens, 4096 x 4096 weight in groups of 128, weights cold in L2", 64, 4096, 4096, launches=16,
         group_size=128),
)  # fmt: skip

STRIDED = ("strided", "traps")
"""Recipes whose words, scales and zeros are views: column_slice, transposed and column_slice."""


def group_size(case: Case) -> int:
    """How many neighbours along K share a scale and a zero point."""
    return case.group_size or case.K


def _layouts(case: Case) -> tuple[str, str, str]:
    """Of qweight, scales and zeros."""
    return ("column_slice", "transposed", "column_slice") if case.w in STRIDED else ("contiguous",) * 3


def scalars(case: Case) -> dict[str, int]:
    """Sizes and strides of a case, in elements."""
    groups, (words, scales, zeros) = case.K // group_size(case), _layouts(case)
    strides = sizes_and_strides(
        case,
        wk_wn=layout_strides(case.K // 8, case.N, words),
        sg_sn=layout_strides(groups, case.N, scales),
        zg_zn=layout_strides(groups, case.N // 8, zeros),
    )
    return {**strides, "group_size": group_size(case)}


def inputs(case: Case, generator: torch.Generator, device: torch.device) -> dict[str, torch.Tensor]:
    """x fp16 [M, K]; qweight int32 [K/8, N]; scales fp16 [G, N]; zeros int32 [G, N/8], G = K / group_size."""
    size = group_size(case)
    if case.K % size or size % 8:
        raise ValueError(f"group_size is {size}, expected a multiple of 8 that divides K = {case.K}")
    q, zeros, scales = _drawn(case, generator, device)
    words_layout, scales_layout, zeros_layout = _layouts(case)
    return {
        "x_ptr": laid_out(activations(case, generator, device), case.x_layout),
        "qweight_ptr": laid_out(pack_int4(q), words_layout),
        "scales_ptr": laid_out(scales.to(torch.float16), scales_layout),
        "zeros_ptr": laid_out(pack_zeros(zeros), zeros_layout),
    }


def _drawn(
    case: Case, generator: torch.Generator, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q of 0..15 [K, N], zero points of 1..16 [G, N] and scales [G, N], by the recipe `case.w`.

    traps: of four columns one has any q and a zero point of its own, one only weights above zero, and two are quantised.
    (With any zero point for each group, groups of large sums would cancel, and few slices of K stray from their share of Y.)
    """
    size = group_size(case)
    groups = case.K // size
    k, g = torch.arange(case.K, device=device)[:, None], torch.arange(groups, device=device)[:, None]
    n = torch.arange(case.N, device=device)[None, :]
    q = torch.randint(0, 16, (case.K, case.N), generator=generator, device=device)
    zeros = torch.randint(1, 17, (groups, case.N), generator=generator, device=device)
    scales = uniform(generator, 0.02, 0.06, groups, case.N, device=device)
    steps = torch.randint(1, 8, q.shape, generator=generator, device=device)
    if case.w == "nibbles":
        return (k + k // 8 + n) % 16, zeros, scales
    if case.w == "zeros":
        return q, (g + n + n // 8) % 16 + 1, scales
    if case.w == "zeros_of_16":
        return q, torch.full_like(zeros, 16), scales
    if case.w == "positive":
        zeros = 2 ** (zeros % 4)  # z s is exact in fp16, so that sums of weights that are rounded apart stay near
        zeros[:, 1::2] = 8
        steps[:, 1::2] *= 2 * torch.randint(0, 2, steps[:, 1::2].shape, generator=generator, device=device) - 1
        return spread(zeros, size) + steps, zeros, scales / 6
    w = normal(generator, case.K, case.N, device=device) / 2
    if case.w == "graded":
        w = w * spread(torch.logspace(-4.5, 1, groups * case.N, device=device).view(case.N, groups).t(), size)
    any_q, any_zeros, any_scales = q, zeros, scales
    one_zero = any_zeros[:1].expand(groups, -1)
    q, zeros, scales = quantise_groups(w, size)
    if case.w == "traps":
        q[:, 1::4], zeros[:, 1::4], scales[:, 1::4] = any_q[:, 1::4], one_zero[:, 1::4], any_scales[:, 1::4] / 4
        zeros[:, 2::4], scales[:, 2::4] = any_zeros[:, 2::4].clamp(max=8), any_scales[:, 2::4] / 12
        q[:, 2::4] = spread(zeros, size)[:, 2::4] + steps[:, 2::4]
    return q, zeros, scales


def quantise_groups(w: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Asymmetric quantisation of float [K, N], `size` neighbours along K together.

    q = clamp(round(w / s) + z, 0, 15) with s = (max - min) / 15, z = round(-min / s), where max >= 0 >= min.
    Returns q int64 [K, N], zero points z int64 [G, N], of which 0 has become 1, and s float32 [G, N].
    """
    grouped = w.view(-1, size, w.shape[1])
    low, high = grouped.amin(dim=1).clamp(max=0), grouped.amax(dim=1).clamp(min=0)
    scales = ((high - low) / 15).clamp(min=2.0**-24)
    zeros = torch.round(-low / scales).clamp(1, 16)
    q = (torch.round(w / spread(scales, size)) + spread(zeros, size)).clamp(0, 15)
    return q.to(torch.int64), zeros.to(torch.int64), scales


def timed_inputs(case: Case, generator: torch.Generator, device: torch.device, launches: int, rare: bool) -> Stack:
    """Words of all bits: each q, and each zero point, in each position. Scales differ fourfold; rows of x have outliers."""
    x, _ = timed_activations(case, generator, device, launches)
    groups = case.K // group_size(case)
    qweight = random_bytes(generator, device, launches, case.K // 8, 4 * case.N).view(torch.int32)
    zeros = random_bytes(generator, device, launches, groups, case.N // 2).view(torch.int32)
    scales = uniform(generator, 2.0**-5, 2.0**-3, launches, groups, case.N, device=device).to(torch.float16)
    return {"x_ptr": x, "qweight_ptr": qweight, "scales_ptr": scales, "zeros_ptr": zeros}


LOWER_NIBBLES = 0x0F0F0F0F
"""Mask of a word: the lower nibble of each byte."""


def _nibbles(words: torch.Tensor, upper: bool) -> torch.Tensor:
    """The lower, or the upper, nibble of each byte of int32 words [B, R, C]: fp16 [B, R, 4, C], byte 0 first."""
    part = (words >> 4 if upper else words) & LOWER_NIBBLES
    by_byte = part.view(torch.uint8).view(*words.shape, 4).transpose(2, 3)
    return by_byte.to(torch.float16, memory_format=torch.contiguous_format)


def project(stack: Stack, signs: torch.Tensor) -> Projected:
    """A (W^T R), group by group: W^T R = q^T (s R) - sum over n of (z + 1) s R. Of byte b, element 2 b is the lower nibble.

    gain: no |q - (z + 1)| of a group exceeds the larger of z + 1 and 14 - z, in units of its scale.
    """
    x, words, scales = stack["x_ptr"], stack["qweight_ptr"], stack["scales_ptr"].float()
    launches, rows, N = words.shape
    groups, vectors = scales.shape[1], signs.shape[1]
    scaled = (scales[:, :, :, None] * signs).view(launches * groups, N, vectors)
    zeros = torch.stack(
        [_nibbles(stack["zeros_ptr"], upper) for upper in (False, True)], dim=3
    )  # [launches, G, byte, half, N / 8]
    zeros = zeros.flatten(2, 3).transpose(2, 3).reshape(launches, groups, N) + 1
    offsets = half_product(zeros.view(launches * groups, 1, N), scaled)
    grouped = words.view(launches * groups, rows // groups, N)
    halves = [
        half_product(_nibbles(grouped, upper).view(launches * groups, -1, N), scaled).view(
            launches * groups, -1, 4, vectors
        )
        for upper in (False, True)
    ]
    column = torch.stack(halves, dim=3).view(launches * groups, -1, vectors) - offsets
    largest = torch.maximum(zeros, 15 - zeros).float() * scales
    gain = row_norms(x) * torch.linalg.vector_norm(largest.flatten(1), dim=1, keepdim=True) / groups**0.5
    return Projected(half_product(x, column.view(launches, 8 * rows, vectors)), gain, permitted=U_FP16 * gain)


def dequantised(problem: Problem) -> torch.Tensor:
    """The weight as float64 [N, K], exact."""
    q, zeros, scales = levels(problem)
    return ((q - zeros) * scales).t()


def _half(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float16).double()


def reference(problem: Problem, roundings: int) -> Reference:
    """fp64 product with the dequantised weight.

    Permitted is also that a kernel rounds q s to fp16, or (z + 1) s, or both; and that it rounds their difference to fp16, or leaves it
    to an fp32 sum, as two products of X do.
    """
    q, zeros, scales = levels(problem)
    of_q, of_zero = (q * scales).t(), (zeros * scales).t()
    sums = (_half(of_q) - of_zero, of_q - _half(of_zero), _half(of_q) - _half(of_zero))
    variants = [variant for exact in sums for variant in (exact, _half(exact))]
    a = problem.tensors["x_ptr"].double()
    return weight_only_reference(a, dequantised(problem), roundings=roundings, variants=variants)


LAB = Lab(
    id="gptq",
    order=5,
    title="GPTQ: int4 weights of real checkpoints, a scale and a zero point for each group",
    kernel="GPTQ_MM",
    layer="GPTQLinear",
    parameters=(
        Parameter("x_ptr", "*fp16", ("M", "K")),
        Parameter("qweight_ptr", "*i32", ("K // 8", "N")),
        Parameter("scales_ptr", "*fp16", ("K // group_size", "N")),
        Parameter("zeros_ptr", "*i32", ("K // group_size", "N // 8")),
        Parameter("y_ptr", "*fp16", ("M", "N")),
        *integers("M N K group_size stride_xm stride_xk stride_wk stride_wn"),
        *integers("stride_sg stride_sn stride_zg stride_zn stride_ym stride_yn"),
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
