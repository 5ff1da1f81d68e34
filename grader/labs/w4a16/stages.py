"""W4A16, stage by stage: X as it is; a nibble out of its word, with its sign; one scale a channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from grader.labs.activations import judge_fp16_activations
from grader.labs.divergence import SCALE, UNPACK
from grader.labs.inputs import normal, pack_int4
from grader.labs.nibbles import Meanings, explain_block, nibbles_of, opened, place
from grader.labs.stages import Array, Judgement, Operand, Scale, Stages, Values, by_strides, exact, refilled
from grader.model import Problem

MEANINGS: Meanings = {
    "": ("", lambda u: np.where(u > 7, u - 16, u)),
    "unsigned": ("the nibble is read as unsigned, 0 to 15", lambda u: u),
    "offset_binary": ("8 is subtracted from the nibble, as if the zero point were 8", lambda u: u - 8),
    "seven_subtracted": ("7 is subtracted from the nibble; numbers from 8 to 15 are those from -8 to -1", lambda u: u - 7),
    "eight_too_large": ("the weights are 8 too large: 0 to 15 instead of -8 to 7", lambda u: np.where(u > 7, u - 8, u + 8)),
    "eight_too_small": ("8 is subtracted from numbers that had their sign already", lambda u: np.where(u > 7, u - 24, u - 8)),
    "sign_and_magnitude": ("bit 3 is taken for a sign and the rest for the magnitude", lambda u: np.where(u > 7, 8 - u, u)),
    "minus_eight_positive": ("the nibble of -8 is read as 8", lambda u: np.where(u > 8, u - 16, u)),
    "seven_negative": ("the nibble of 7 is read as -9", lambda u: np.where(u > 6, u - 16, u)),
    "three_bits": ("numbers from 8 on become 8 less (by a mask of three bits, or because 8 is subtracted), and have to become 16 less",
                   lambda u: u & 7),
    "fifteen_subtracted": ("15 is subtracted from the nibbles of negative numbers, not 16", lambda u: np.where(u > 7, u - 15, u)),
}  # fmt: skip


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """Which nibble of its word the operand holds, and as which number."""
    words = exact(problem, "qweight_ptr").astype(np.int64)[values.k // 8, values.row]
    scales = exact(problem, "scales_ptr").astype(np.float64)
    used_scale = values.used.get("scales_ptr", np.full(values.row.shape, -1))
    scale = scales[np.where((used_scale >= 0) & (used_scale < len(scales)), used_scale, values.row)]
    known = used_scale < len(scales)  # where a scale from outside the tensor was taken nothing is known of the nibble
    if not known.all():
        return [_scale_outside(used_scale, values, ~known)], scales[values.row]
    for beta in (np.ones_like(scale), scale):
        verdicts = opened(values.value / beta, words, values, MEANINGS, 2e-3 if beta is scale else 1e-6)
        if verdicts is not None and beta is scale:
            return [*_scales_taken(scales, used_scale, values), *verdicts], scales[np.where(used_scale >= 0, values.target, values.row)]
        if verdicts is not None:
            return verdicts, beta
    if taken := _scales_taken(scales, used_scale, values):
        return taken, scale
    position = values.partner - values.k
    inside = (position >= 0) & (position < 8)
    position = np.where(inside, position, 0)
    right = MEANINGS[""][1](np.take_along_axis(nibbles_of(words), position[..., None], axis=-1)[..., 0]).astype(np.float64)
    held = values.value
    wrong = inside & (held != right)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the right operand holds {held[at]:.5g} for element {position[at]} of word "
                f"({values.k[at] // 8}, {values.row[at]}), which is {words[at] & 0xFFFFFFFF:#010x}", f"{right[at]:.0f}")  # fmt: skip

    return (Judgement("opened_otherwise", _otherwise(held[inside], right[inside]), wrong, describe, rank=UNPACK),), np.ones_like(scale)


def _otherwise(held: Array, right: Array) -> str:
    """What numbers that no known way gives have in common with the right ones; "" where it is nothing."""
    if not right.any() or not np.isfinite(held).all():
        return ""
    high = next((bits for bits in range(1, 29) if (np.floor(held / 2**bits) == right).all()), 0)
    low = next((bits for bits in (1, 2, 3) if (np.floor(right / 2**bits) == held).all()), 0)
    if high or low:
        by = f"{high or low} bit{'s' if high + low > 1 else ''}"
        return f"the shifts leave each nibble {by} too {'high' if high else 'low'}"
    if (np.abs(held) <= 16).all() and ((held - right) % 16 == 0).all():
        return "the four bits are those of the nibble, and the sign does not follow from its own highest bit"
    return ""


def _scale_outside(used: Array, values: Values, outside: Array) -> Judgement:
    """Words that were multiplied by what lies behind the last scale."""

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"W[{values.row[at]}, {values.k[at]}] is multiplied by scales[{used[at]}]", f"scales[{values.target[at]}], for every k"

    reason = "there is one scale for each channel, scales[n], and what lies behind the last one is taken"
    return Judgement("scale_outside", reason, outside, describe, rank=SCALE, tensor="scales_ptr")


def _scales_taken(scales: Array, used: Array, values: Values) -> list[Judgement]:
    """Words that were multiplied by another channel's scale than that of the column they are for."""
    wrong = (used >= 0) & (used != values.target) & (used != values.row)
    if not wrong.any():
        return []
    one = len(np.unique(used[used >= 0])) == 1 and len(np.unique(values.target[used >= 0])) > 1

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"W[{values.row[at]}, ...] is multiplied by scales[{used[at]}]", f"scales[{values.target[at]}]"

    spread = not one and all(len(np.unique(used[(values.partner == k) & (used >= 0)])) <= 1 for k in np.unique(values.partner))
    if spread and len(np.unique(values.target[used >= 0])) > 1:
        return [Judgement("scale_along_k", "scales are spread along K, and belong to the channels", wrong, describe, rank=SCALE)]
    if one:
        return [Judgement("one_scale_for_all_channels", "one element of scales is used for the whole tile", wrong, describe, rank=SCALE)]
    return [Judgement("scale_without_tile_offset", "scales is loaded without the offset of the tile", wrong, describe, rank=SCALE)]


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, every nibble in every position, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu"))
    x[2::3] *= 1024  # sums beyond 65504, which the scale brings back
    q = torch.randint(-8, 8, (K, N), generator=generator)
    scales = (0.02 + 0.05 * torch.rand(N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x.to(torch.float16), "qweight_ptr": pack_int4(q), "scales_ptr": scales})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("qweight_ptr", "W", place, ("stride_wn", "stride_wk"), unit=8),
    judge_left=judge_fp16_activations,
    judge_right=judge_right,
    inputs=inputs,
    scales=(Scale("scales_ptr", "n", "scale"),),
    explain_block=explain_block,
)
