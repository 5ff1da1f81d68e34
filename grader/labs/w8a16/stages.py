"""W8A16, stage by stage: X as it is; a byte with its sign; one scale a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from grader.labs.activations import judge_fp16_activations
from grader.labs.divergence import SCALE, WEIGHT
from grader.labs.inputs import normal
from grader.labs.stages import Array, Judgement, Operand, Scale, Stages, Values, by_strides, exact, refilled
from grader.model import Problem

MEANINGS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "": ("", lambda q: q),
    "unsigned": ("the byte is read as unsigned, 0 to 255", lambda q: np.where(q < 0, q + 256, q)),
    "offset_binary": ("128 is subtracted from the byte, as if the zero point were 128", lambda q: np.where(q < 0, q + 128, q - 128)),
    "128_too_large": ("the weights are 128 too large: 0 to 255 instead of -128 to 127", lambda q: q + 128),
    "128_too_small": ("128 is subtracted from numbers that had their sign already", lambda q: q - 128),
    "sign_and_magnitude": ("the highest bit is taken for a sign and the rest for the magnitude", lambda q: np.where(q < 0, -(q + 128), q)),
    "255_subtracted": ("255 is subtracted from the bytes of negative numbers, not 256", lambda q: np.where(q < 0, q + 1, q)),
    "minus_128_positive": ("the byte of -128 is read as 128", lambda q: np.where(q == -128, 128, q)),
    "clamp_to_minus_127": ("the weight is clamped to [-127, 127], but int8 begins at -128", lambda q: np.maximum(q, -127)),
}  # fmt: skip


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """Which number the operand holds for a byte, or this number times a scale."""
    q = exact(problem, "qweight_ptr").astype(np.float64)[values.k, values.row]
    scales = exact(problem, "scales_ptr").astype(np.float64)
    used = values.used.get("scales_ptr", np.full(values.row.shape, -1))
    scale = scales[np.where((used >= 0) & (used < len(scales)), used, values.row)]
    ones = np.ones_like(scale)
    for beta, loose in ((ones, 1e-6), (scale, 2e-3)):
        name = _meaning(values.value / beta, q, loose)
        if name is None:
            continue
        verdicts = [_misread(name, values, q * beta)] if name else []
        if beta is ones:
            return verdicts, beta
        return [*_scales_taken(scales, used, values), *verdicts], scales[np.where(used >= 0, values.target, values.row)]
    wrong = values.value != q
    return (Judgement("weight_converted", "", wrong, _held(values, q), rank=WEIGHT),), ones


def _meaning(held: Array, q: Array, loose: float) -> str | None:
    """The name of the first meaning of a byte that fits all values, "" for the right one, None where none does."""
    for name, (_, meaning) in MEANINGS.items():
        expected = meaning(q)
        if (np.abs(held - expected) <= loose * np.maximum(1.0, np.abs(expected))).all():
            return name
    return None


def _misread(name: str, values: Values, right: Array) -> Judgement:
    return Judgement(name, MEANINGS[name][0], np.abs(values.value - right) > 2e-3 * np.abs(right), _held(values, right), rank=WEIGHT)


def _held(values: Values, right: Array) -> Callable[[tuple[int, ...]], tuple[str, str]]:
    return lambda at: (f"the right operand holds {values.value[at]:.5g} for W[{values.row[at]}, {values.k[at]}]", f"{right[at]:.5g}")


def _scales_taken(scales: Array, used: Array, values: Values) -> list[Judgement]:
    """Weights that were multiplied by another channel's scale than that of the column they are for."""
    wrong = (used >= 0) & (used != values.target) & (used != values.row)
    if not wrong.any():
        return []

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"W[{values.row[at]}, ...] is multiplied by scales[{used[at]}]", f"scales[{values.target[at]}]"

    if len(np.unique(used[used >= 0])) == 1 and len(np.unique(values.target[used >= 0])) > 1:
        return [Judgement("one_scale_for_all_channels", "one element of scales is used for the whole tile", wrong, describe, rank=SCALE)]
    return [Judgement("scale_without_tile_offset", "scales is loaded without the offset of the tile", wrong, describe, rank=SCALE)]


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, weights of all values with -128 among every dozen, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu"))
    x[2::3] *= 64  # sums beyond 65504, which the scale brings back
    weight = torch.randint(-128, 128, (N, K), generator=generator).to(torch.int8)
    weight[:, ::13] = -128
    scales = (0.002 + 0.005 * torch.rand(N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x.to(torch.float16), "qweight_ptr": weight.t(), "scales_ptr": scales})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("qweight_ptr", "W", by_strides("qweight_ptr", "stride_wn", "stride_wk"), ("stride_wn", "stride_wk")),
    judge_left=judge_fp16_activations,
    judge_right=judge_right,
    inputs=inputs,
    scales=(Scale("scales_ptr", "n", "scale"),),
)
