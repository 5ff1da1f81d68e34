"""W8A8, stage by stage: X through x / s, rounding and clamp to int8; the stored int8 weight; two scales after the sum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from grader.labs.divergence import CONVERT, SCALE, WEIGHT
from grader.labs.inputs import laid_out, normal
from grader.labs.stages import Array, Judgement, Operand, Scale, Stages, Values, by_strides, exact, refilled
from grader.model import Problem

TIE_WIDTH = 4 * 127 * 2.0**-24
INPUT_SCALE = "input_scale_ptr"


def _wrap(q: Array) -> Array:
    return (np.trunc(q) + 128) % 256 - 128


HALF_UP = "rounded by adding 0.5 and truncating, which is wrong for negative values"
HALF_DOWN = "rounded by subtracting 0.5 and truncating, which is wrong for positive values"
CONVERSIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "": ("", np.round),
    "truncation": ("truncated instead of rounded to nearest", np.trunc),
    "half_up_truncation ": (HALF_UP, lambda r: np.trunc(np.clip(r, -128, 127) + 0.5)),  # which takes -128 to -127
    "half_up_truncation": (HALF_UP, lambda r: np.trunc(r + 0.5)),
    "negative_truncation": ("rounded to nearest where it is positive, and truncated where it is negative",
                            lambda r: np.where(r < 0, np.trunc(r), np.round(r))),
    "half_down_truncation ": (HALF_DOWN, lambda r: np.trunc(np.clip(r, -128, 127) - 0.5)),
    "half_down_truncation": (HALF_DOWN, lambda r: np.trunc(r - 0.5)),
    "floor_rounding": ("rounded down instead of to nearest", np.floor),
    "ceil_rounding": ("rounded up instead of to nearest", np.ceil),
    "sign_lost": ("the sign is lost: negative numbers become positive", lambda r: np.abs(np.round(r))),
    "not_quantised": ("x / s is multiplied as it is, it never becomes an integer", lambda r: r),
}  # fmt: skip
CLAMPS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "": ("", lambda q: np.clip(q, -128, 127)),
    "no_clamp": ("x / s is not clamped before it becomes int8, and what does not fit wraps around", _wrap),
    "clamp_to_minus_127": ("clamped to [-127, 127], but int8 begins at -128", lambda q: np.clip(q, -127, 127)),
    "clamp_to_unsigned": ("clamped to numbers from 0 on, but int8 has negative ones", lambda q: np.clip(q, 0, 127)),
    "no_clamp ": ("there is no clamp", lambda q: q),
    "no_lower_clamp": ("what is below -128 is not clamped before it becomes int8, and wraps around", lambda q: _wrap(np.minimum(q, 127))),
    "no_upper_clamp": ("what is above 127 is not clamped before it becomes int8, and wraps around", lambda q: _wrap(np.maximum(q, -128))),
    "minimum_for_maximum": ("what is above -128 becomes -128: the lower end of the clamp takes a minimum, not a maximum",
                            lambda q: _wrap(np.minimum(q, -128))),
    "clamp_to_unsigned  ": ("clamped to 0..255, but int8 has negative numbers", lambda q: np.clip(q, 0, 255)),
    "clamp_to_unsigned ": ("clamped to 0..255, but int8 has negative numbers", lambda q: _wrap(np.clip(q, 0, 255))),
}  # fmt: skip
RATIOS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "": ("", lambda x, s: x / s),
    "fp16_division": ("x / s is computed in fp16, or with a scale rounded to fp16, and crosses a threshold",
                      lambda x, s: x / s.astype(np.float16).astype(np.float64)),
    "fp16_division ": ("x / s is computed in fp16, whose rounding moves it across a threshold",
                       lambda x, s: (x.astype(np.float16) / s.astype(np.float16)).astype(np.float64)),
    "integer_before_division": ("X becomes an integer before it is divided by its scale, and loses its fraction",
                                lambda x, s: np.trunc(x) / s),
    "scale_added_to_x": ("X and its scale are added; X has to be divided by it", lambda x, s: x + s),
    "reciprocal_added_to_x": ("X and 1 / its scale are added; X has to be multiplied by that", lambda x, s: x + 1 / s),
    "unscaled_quantisation": ("X is not divided by its scale", lambda x, s: x),
    "multiplied_by_scale": ("X is multiplied by its scale instead of divided", lambda x, s: x * s),
    "divided_by_127": ("x / s is divided by 127 besides; the scale is that of one step already", lambda x, s: x / s / 127),
}  # fmt: skip
ALL_ZERO = (
    "every value becomes 0, so X is multiplied by its scale instead of divided, or clamped to -128..127 after 12582912.0 is added to it"
)
ALL_ONE_NUMBER = {
    -1.0: "every value becomes -1, since x / s + 12582912.0 is converted where its bits are wanted; "
    "write .to(tl.int32, bitcast=True).to(tl.int8)",
    127.0: "every value becomes 127: x / s is clamped after something large, such as 12582912.0, is added to it (clamp it before), or the "
    "upper end of the clamp takes a maximum, not a minimum",
}
"""What comes of rounding by an addition when a part of it is missing or out of order."""
ENOUGH = 0.999
NEARLY = 0.95
FIRST_ASKED = 256
"""How many values are asked first: where fewer than nearly all of them fit, the others are not."""
FEWEST = 8
"""How many values must say what x / s is multiplied by."""


def judge_left(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """Whose scale X is divided by, and which conversion of which ratio the operand holds."""
    x = exact(problem, "x_ptr").astype(np.float64)[values.row, values.k]
    scale = exact(problem, INPUT_SCALE).astype(np.float64)
    loaded = INPUT_SCALE in values.used
    used = values.used[INPUT_SCALE] if loaded else np.full(x.shape, -1)
    known = (used >= 0) & (used < len(scale))
    s = scale[np.where(known, used, values.row)]
    masked = (used == -1) & loaded  # the number that the load's mask put there is no scale, and of such values nothing is known
    verdicts = _scale_verdicts(values, used, known, masked)
    told = np.flatnonzero(~masked)
    if not len(told):
        return verdicts, np.ones_like(x)
    near_tie = _near_tie(x / s)
    with np.errstate(invalid="ignore", over="ignore"):
        best, scaled = _best(values.value[told], x[told], s[told], near_tie[told])
        if best is None and not loaded and (depth := _depth_of_own_scales(problem, values)):
            return [_of_own_scales(problem, values, depth)], np.ones_like(x)
    found = [_otherwise(values, x / s, near_tie)] if best is None else _named(best, values, x, s, near_tie)
    return verdicts + [replace(one, wrong=one.wrong & ~masked) for one in found], s if scaled else np.ones_like(x)


def _own_ratios(problem: Problem, values: Values, depth: int) -> Array:
    """Ratios of X to 1/127 of the largest element of its token among `depth` neighbours along K."""
    x = exact(problem, "x_ptr").astype(np.float64)
    M, K = x.shape
    padded = np.pad(np.abs(x), ((0, 0), (0, -K % depth)))
    largest = padded.reshape(M, -1, depth).max(axis=2)
    peak = largest[values.row, values.k // depth]
    return x[values.row, values.k] / np.where(peak > 0, peak / 127, 1.0)


def _depth_of_own_scales(problem: Problem, values: Values) -> int:
    """How many neighbours along K have a scale of their own, made of the largest of them; 0 where that is not so."""
    for depth in (16, 32, 64, 128, 256, 512):
        off = np.abs(values.value - np.clip(np.round(_own_ratios(problem, values, depth)), -128, 127))
        if (off <= 0.5).mean() >= NEARLY and (off <= 1.5).all():
            return depth
    return 0


def _of_own_scales(problem: Problem, values: Values, depth: int) -> Judgement:
    """X was divided by a scale that the kernel made itself, and not by the one that the result is multiplied by."""
    x = exact(problem, "x_ptr").astype(np.float64)[values.row, values.k]
    right = np.clip(np.round(x / exact(problem, INPUT_SCALE).astype(np.float64)[values.row]), -128, 127)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"X[{values.row[at]}, {values.k[at]}] = {x[at]:.4g} became {values.value[at]:.0f}", f"{right[at]:.0f} (X / input_scale)")

    reason = (f"X is divided by 1/127 of the largest of {depth} neighbours along K, and every {depth} have a scale of their own; "
              "input_scale, by which the result is multiplied, is what X has to be divided by")  # fmt: skip
    return Judgement("scale_of_its_tile", reason, np.abs(values.value - right) > 0.5, describe, x, CONVERT)


def _near_tie(ratio: Array) -> Array:
    near: Array = (np.abs(ratio - np.floor(ratio) - 0.5) <= TIE_WIDTH) & (np.abs(ratio) < 129)
    return near


def _scale_verdicts(values: Values, used: Array, known: Array, masked: Array) -> list[Judgement]:
    """used: the scale that each value was divided by; known: where there is one; masked: where the mask of its load left it out."""
    other = known & (used != values.row) & (used != values.target)
    one = bool(known.any()) and len(np.unique(used[known])) == 1 and len(np.unique(values.row[known])) > 1

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        what = "what the mask of the scales puts there" if masked[at] else f"the scale of token {used[at]}"
        return (f"X[{values.row[at]}, {values.k[at]}] is divided by {what}", f"that of token {values.row[at]}")

    reason = "every token is quantised with the same scale" if one else "tokens are quantised with other tokens' scales"
    name = "one_scale_for_all_tokens or wrong_token_scale" if one else "wrong_token_scale"
    found = [Judgement(name, reason, other, describe, rank=SCALE, tensor=INPUT_SCALE)] if other.any() else []
    if masked.any() and not other.any():
        reason = "the mask of the load of the scales leaves out tokens that are needed, or the index is not that of the tokens"
        found.append(Judgement("wrong_token_scale", reason, masked, describe, rank=SCALE, tensor=INPUT_SCALE))
    return found


def _otherwise(values: Values, ratio: Array, near_tie: Array) -> Judgement:
    """Of numbers that no known conversion gives."""
    right = np.clip(np.round(ratio), -128, 127)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the left operand holds {values.value[at]:.5g} for X[{values.row[at]}, {values.k[at]}] "
                f"(x / s = {ratio[at]:.4g})", f"{right[at]:.0f}")  # fmt: skip

    wrong = (np.abs(values.value - right) > 0.5) & ~near_tie
    one_number = ALL_ONE_NUMBER.get(float(values.value[0]), "") if len(np.unique(values.value)) == 1 else ""
    off = _off_words(values.value - right, (np.abs(ratio) < 120) & ~near_tie)
    reason = one_number or _beyond_words(values.value, ratio, wrong) or off
    return Judgement("quantised_otherwise", reason, wrong, describe, ratio, rank=CONVERT)


def _off_words(off: Array, inside: Array) -> str:
    """That all numbers that int8 holds are off by one and the same whole number; else ""."""
    each = np.unique(off[inside])
    if len(each) != 1 or not each[0] or each[0] != np.round(each[0]):
        return ""
    return f"every number is {abs(each[0]):.0f} too {'small' if each[0] < 0 else 'large'}"


def _beyond_words(value: Array, ratio: Array, wrong: Array) -> str:
    """What becomes of ratios that int8 does not hold, where nothing else is wrong and all on one side become one number; else ""."""
    found = []
    for side, limit, words in ((ratio < -128.5, -128, "below -128"), (ratio > 127.5, 127, "above 127")):
        became = np.unique(value[side & wrong])
        if len(became) == 1 and (value[side] == became[0]).all():
            found.append(f"what is {words} becomes {became[0]:.4g}, and not {limit}")
    return "" if (wrong & (np.abs(ratio) < 127)).any() or not found else f"the clamp is wrong: {', and '.join(found)}"


Best = tuple[str, str, str]
"""Names of the ratio, the conversion and the clamp."""


def _best(value: Array, x: Array, s: Array, near_tie: Array) -> tuple[Best | None, bool]:
    """The right conversion where it fits, else the first that fits nearly everywhere; and whether the scale is on top of it."""
    ratios = {kind: divide(x, s) for kind, (_, divide) in RATIOS.items() if kind != "divided_by_127" or value.any()}  # zeros tell nothing
    if times := _times(value, x / s):
        ratios[f"times_{times}"] = x / s * times
    few = np.linspace(0, len(value) - 1, min(FIRST_ASKED, len(value))).astype(int)
    for scaled in (False, True):
        held = value / s if scaled else value
        of_few = {kind: ratio[few] for kind, ratio in ratios.items()}
        for best in itertools.product(ratios, CONVERSIONS, CLAMPS):
            some = _share(best, of_few, held[few], near_tie[few], scaled=scaled)
            if some >= NEARLY and _share(best, ratios, held, near_tie, scaled=scaled) >= (ENOUGH if any(best) else 1.0):
                return best, scaled
    return None, False


def _share(best: Best, ratios: Mapping[str, Array], held: Array, near_tie: Array, *, scaled: bool) -> float:
    """The share of what is held that is made in one way."""
    kind, conversion, clamp = best
    expected = CLAMPS[clamp][1](CONVERSIONS[conversion][1](ratios[kind]))
    slack = near_tie * 1.01 if not kind and not conversion else 0.0
    loose = 2e-3 * np.abs(expected) if conversion == "not_quantised" or scaled else 0.0
    return float((np.abs(held - expected) <= slack + loose + 1e-6).mean())


def _times(value: Array, ratio: Array) -> int:
    """The whole number from 2 on that x / s was multiplied by, however rounded, before it was cut off; 0 where none or several fit.

    Of several 127, by which the largest element is divided to make a scale.
    """
    tell = (np.abs(value) >= 1) & (np.abs(value) < 127) & (ratio != 0)
    if tell.sum() < FEWEST:
        return 0
    low, high = (float(reduce((np.abs(value[tell]) + one) / np.abs(ratio[tell]))) for one, reduce in ((-1, np.max), (1, np.min)))
    factors = range(max(2, int(np.ceil(low))), int(np.floor(high)) + 1)
    return 127 if 127 in factors else factors[0] if len(factors) == 1 else 0


def _named(best: Best, values: Values, x: Array, s: Array, near_tie: Array) -> list[Judgement]:
    """One verdict for each of the three parts that is not as it should be."""
    kind, conversion, clamp = best
    verdicts = []
    times = int(kind.removeprefix("times_")) if kind.startswith("times_") else 1
    right_ratio, ratio = x / s, x / s * times if times > 1 else RATIOS[kind][1](x, s)
    right = np.clip(np.round(right_ratio), -128, 127)

    def described(before: Array, after: Array, words: str) -> Callable[[tuple[int, ...]], tuple[str, str]]:
        return lambda at: (f"X[{values.row[at]}, {values.k[at]}] {words} = {before[at]:.4g} became {values.value[at]:.4g}",
                           f"{after[at]:.0f}")  # fmt: skip

    inside = np.abs(ratio) < 126
    if kind:
        wrong = (np.abs(values.value - right) > 0.5) & ~near_tie
        reason = f"x / s is multiplied by {times} besides" if times > 1 else RATIOS[kind][0]
        if kind == "multiplied_by_scale" and not values.value.any():  # as both give
            reason = ALL_ZERO
        verdicts.append(Judgement(kind.strip(), reason, wrong, described(right_ratio, right, "/ s"), rank=CONVERT))
    words = "/ s" if kind in ("", "fp16_division", "fp16_division ") else "times s" if kind == "multiplied_by_scale" else ""
    rounded = np.round(ratio)
    if conversion:
        wrong = (np.abs(CONVERSIONS[conversion][1](ratio) - rounded) > 1e-3) & inside
        verdicts.append(Judgement(conversion.strip(), CONVERSIONS[conversion][0], wrong, described(ratio, rounded, words), ratio, CONVERT))
    if clamp and conversion != "not_quantised":
        clamped = np.clip(rounded, -128, 127)
        wrong = np.abs(CLAMPS[clamp][1](CONVERSIONS[conversion][1](ratio)) - clamped) > 1.5
        wrong |= (np.abs(CLAMPS[clamp][1](rounded) - clamped) > 0.5) & (np.abs(values.value - clamped) > 0.5)
        verdicts.append(Judgement(clamp.strip(), CLAMPS[clamp][0], wrong, described(ratio, clamped, words), ratio, CONVERT))
    return verdicts


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """The stored integers, or these times their scale."""
    q = exact(problem, "qweight_ptr").astype(np.float64)[values.k, values.row]
    scale = exact(problem, "weight_scale_ptr").astype(np.float64)[values.row]
    for beta in (np.ones_like(scale), scale):
        if (np.abs(values.value - q * beta) <= 2e-3 * np.abs(q * beta)).all():
            return (), beta
    wrong = values.value != q
    at_most = Judgement("weight_converted", "the stored int8 is the weight; nothing but its scale belongs to it", wrong,
                      lambda at: (f"the right operand holds {values.value[at]:.5g} for W[{values.row[at]}, {values.k[at]}]",
                                  f"{q[at]:.0f}"), rank=WEIGHT)  # fmt: skip
    return (at_most,), np.ones_like(scale)


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Distinct scales, ratios of all fractions and signs, rows that saturate at both ends, weights of all values."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    peak = x.float().abs().amax(dim=1).clamp(min=1e-3)
    tight = torch.where(torch.arange(M) % 3 == 2, 0.55, 1.0)
    input_scale = peak / 127 * tight * (1 + 0.5 * torch.rand(M, generator=generator) * (tight == 1))
    weight = torch.randint(-127, 128, (N, K), generator=generator).to(torch.int8)
    weight_scale = (1 + torch.rand(N, generator=generator)) / 300
    return refilled(problem, {
        "x_ptr": laid_out(x, "contiguous"), "qweight_ptr": weight.t(), INPUT_SCALE: input_scale,
        "weight_scale_ptr": weight_scale,
    })  # fmt: skip


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("qweight_ptr", "W", by_strides("qweight_ptr", "stride_wn", "stride_wk"), ("stride_wn", "stride_wk")),
    judge_left=judge_left,
    judge_right=judge_right,
    inputs=inputs,
    scales=(Scale(INPUT_SCALE, "m", "input scale"), Scale("weight_scale_ptr", "n", "weight scale")),
)
