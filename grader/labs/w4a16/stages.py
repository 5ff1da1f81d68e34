"""W4A16, stage by stage: X as it is; a nibble out of its word, with its sign; one scale a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from grader.labs.divergence import CONVERT, SCALE, UNPACK
from grader.labs.inputs import normal, pack_int4
from grader.labs.stages import (
    Array,
    Blocks,
    Judgement,
    Operand,
    Rule,
    RuleMatches,
    Scale,
    Stages,
    Values,
    by_strides,
    exact,
    refilled,
)
from grader.model import Problem

Meaning = Callable[[Array], Array]
MEANINGS: dict[str, tuple[str, Meaning]] = {
    "": ("", lambda u: np.where(u > 7, u - 16, u)),
    "unsigned": ("the nibble is read as unsigned, 0 to 15", lambda u: u),
    "offset_binary": ("8 is subtracted from the nibble, as if the zero point were 8", lambda u: u - 8),
    "eight_too_large": ("the weights are 8 too large: 0 to 15 instead of -8 to 7", lambda u: np.where(u > 7, u - 8, u + 8)),
    "eight_too_small": ("8 is subtracted from numbers that had their sign already", lambda u: np.where(u > 7, u - 24, u - 8)),
    "sign_and_magnitude": ("bit 3 is taken for a sign and the rest for the magnitude", lambda u: np.where(u > 7, 8 - u, u)),
    "minus_eight_positive": ("the nibble of -8 is read as 8", lambda u: np.where(u > 8, u - 16, u)),
    "seven_negative": ("the nibble of 7 is read as -9", lambda u: np.where(u > 6, u - 16, u)),
    "fifteen_subtracted": ("15 is subtracted from the nibbles of negative numbers, not 16", lambda u: np.where(u > 7, u - 15, u)),
}  # fmt: skip


def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
    """Column and first k of a word by its offset."""
    n, word = by_strides("qweight_ptr", "stride_wn", "stride_wk")(problem, offsets)
    return n, word * 8


def judge_left(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """X as it was loaded, or these times the scale of the channel (which the walk finds out)."""
    x = exact(problem, "x_ptr").astype(np.float64)[values.row, values.k]
    ones = np.ones_like(x)
    wrong = np.abs(values.value - x) > 1e-3 * np.abs(x)
    if not wrong.any():
        return (), ones

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"the left operand holds {values.value[at]:.5g} for X[{values.row[at]}, {values.k[at]}]", f"{x[at]:.5g}"

    reason = "X is multiplied as it is"
    if (values.value == np.trunc(x)).all() or (values.value == np.round(x)).all():
        reason = "X is fp16 and stays so: it lost its fraction on the way"
    return (Judgement("x_converted", reason, wrong, describe, x, CONVERT),), ones


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """Which nibble of its word the operand holds, and as which number."""
    words = exact(problem, "qweight_ptr").astype(np.int64)[values.k // 8, values.row]
    scales = exact(problem, "scales_ptr").astype(np.float64)
    used_scale = values.used.get("scales_ptr", np.full(values.row.shape, -1))
    scale = scales[np.where((used_scale >= 0) & (used_scale < len(scales)), used_scale, values.row)]
    position = values.partner - values.k
    inside = (position >= 0) & (position < 8)
    position = np.where(inside, position, 0)
    nibbles = words[..., None] >> (4 * np.arange(8)) & 15
    used = np.take_along_axis(nibbles, position[..., None], axis=-1)[..., 0]
    right = MEANINGS[""][1](used).astype(np.float64)
    for beta in (np.ones_like(scale), scale):
        held = values.value / beta
        verdicts = _explained(held, words, nibbles, position, right, beta is scale, values, inside)
        if verdicts is not None and beta is scale:
            return [*_scales_taken(scales, used_scale, values), *verdicts], scales[np.where(used_scale >= 0, values.target, values.row)]
        if verdicts is not None:
            return verdicts, beta
    held = values.value
    wrong = inside & (held != right)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the right operand holds {held[at]:.5g} for element {position[at]} of word "
                f"({values.k[at] // 8}, {values.row[at]}), which is {words[at] & 0xFFFFFFFF:#010x}", f"{right[at]:.0f}")  # fmt: skip

    return (Judgement("opened_otherwise", "", wrong, describe, rank=UNPACK),), np.ones_like(scale)


def _scales_taken(scales: Array, used: Array, values: Values) -> list[Judgement]:
    """Words that were multiplied by another channel's scale than that of the column they are for."""
    wrong = (used >= 0) & (used != values.target) & (used != values.row)
    if not wrong.any():
        return []
    one = len(np.unique(used[used >= 0])) == 1 and len(np.unique(values.target[used >= 0])) > 1

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return f"W[{values.row[at]}, ...] is multiplied by scales[{used[at]}]", f"scales[{values.target[at]}]"

    if one:
        return [Judgement("one_scale_for_all_channels", "one element of scales is used for the whole tile", wrong, describe, rank=SCALE)]
    return [Judgement("scale_without_tile_offset", "scales is loaded without the offset of the tile", wrong, describe, rank=SCALE)]


def _explained(held: Array, words: Array, nibbles: Array, position: Array, right: Array, scaled: bool, values: Values,
               inside: Array) -> list[Judgement] | None:  # fmt: skip
    """None where no way of opening a word fits all values; no verdict where the right one does."""
    loose = 2e-3 if scaled else 1e-6

    def fits(expected: Array) -> Array:
        near: Array = np.abs(held - expected) <= loose * np.maximum(1.0, np.abs(expected))
        return ~inside | near

    if fits(right).all():
        return []

    def verdict(name: str, reason: str) -> Judgement:
        def describe(at: tuple[int, ...]) -> tuple[str, str]:
            word = f"word ({values.k[at] // 8}, {values.row[at]})"
            return (f"element {position[at]} of {word}, {words[at] & 0xFFFFFFFF:#010x}, became {held[at]:.5g}",
                    f"{right[at]:.0f}")  # fmt: skip

        return Judgement(name, reason, inside & ~fits(right), describe, rank=UNPACK)

    shifted = {
        "no_nibble_mask": ("the word is shifted, but the higher nibbles are not masked away", words >> (4 * position)),
        "shift_by_bits": ("the word is shifted by k % 8 bits, not by 4 * (k % 8)", words >> position & 15),
        "shifted_left": ("the word is shifted to the left", (words << (4 * position)) & 15),
    }
    for name, (_, meaning) in MEANINGS.items():
        order = _order(held, nibbles, position, meaning, loose, inside)
        if order is None:
            continue
        verdicts = []
        if name:
            verdicts.append(verdict(name, MEANINGS[name][0]))
        if order:
            verdicts.append(verdict(*_order_words(order)))
        return verdicts
    for name, (reason, integers) in shifted.items():
        for meaning in (lambda u: u, MEANINGS[""][1]):
            with np.errstate(over="ignore"):
                as_half = meaning(integers).astype(np.float16).astype(np.float64)
            if fits(meaning(integers)).all() or ((as_half == held) | ~inside).all():
                return [verdict(name, reason)]
    return None


def _order(held: Array, nibbles: Array, position: Array, meaning: Meaning, loose: float, inside: Array) -> dict[int, int] | None:
    """From an element's number in its word to the nibble that is used for it; {} where all are right, None: none fits."""
    numbers = meaning(nibbles)
    found = {}
    for element in range(8):
        here = inside & (position == element)
        if not here.any():
            continue
        agrees = (np.abs(held[here][..., None] - numbers[here]) <= loose * np.maximum(1.0, np.abs(numbers[here]))).all(axis=0)
        if agrees[element]:
            found[element] = element
        elif agrees.any() and here.sum() >= 4:
            found[element] = int(np.flatnonzero(agrees)[0])
        else:
            return None
    return {} if all(a == b for a, b in found.items()) else found


def _order_words(order: dict[int, int]) -> tuple[str, str]:
    listed = " ".join(str(order.get(element, "?")) for element in range(8))
    names = {
        "7 6 5 4 3 2 1 0": ("nibble_order_reversed", "elements are taken from the highest nibble down"),
        "0 4 1 5 2 6 3 7": ("nibble_order_interleaved", f"elements 0 to 7 are taken from nibbles {listed}"),
        "0 2 4 6 1 3 5 7": ("nibble_order_permuted", f"elements 0 to 7 are taken from nibbles {listed}"),
        "1 0 3 2 5 4 7 6": ("nibble_pairs_swapped", "the two nibbles of each byte are exchanged"),
        "0 0 0 0 0 0 0 0": ("lowest_nibble_only", "the lowest nibble is used for all eight elements of its word"),
        "0 1 2 3 0 1 2 3": ("four_of_eight_nibbles", "the lower four nibbles of a word are used twice"),
        "0 2 4 6 0 2 4 6": ("four_of_eight_nibbles", "only every other nibble of a word is used, twice"),
    }
    return names.get(listed, ("nibble_order_permuted", f"elements 0 to 7 of a word are taken from nibbles {listed}"))


def explain_block(problem: Problem, blocks: Blocks) -> RuleMatches:
    """Other ways to look for element (k, n) among the words."""
    N, K = problem.scalars["N"], problem.scalars["K"]
    rules = []
    if (blocks.offset == blocks.left_k * (N // 8) + blocks.n // 8).all():
        rules.append(Rule("words", "packed_along_n", "eight columns are looked for in a word; it holds eight k"))
    if (blocks.row == blocks.n).all() and (blocks.k // 8 == blocks.left_k % (K // 8)).all():
        reason = "nibble j of the words is taken for the j-th eighth of K; a word holds eight neighbouring k"
        rules.append(Rule("words", "packed_in_planes", reason))
    rules += [
        Rule("words", "word_of_k", f"element k is looked for in word k // {per_word}; a word holds eight")
        for per_word in (1, 2, 4, 16)
        if (blocks.row == blocks.n).all() and (blocks.k // 8 == blocks.left_k // per_word).all()
    ]
    return RuleMatches(frozenset({"words"}), tuple(rules))


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, every nibble in every position, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    q = torch.randint(-8, 8, (K, N), generator=generator)
    scales = (0.02 + 0.05 * torch.rand(N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "qweight_ptr": pack_int4(q), "scales_ptr": scales})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("qweight_ptr", "W", place, ("stride_wn", "stride_wk"), unit=8),
    judge_left=judge_left,
    judge_right=judge_right,
    inputs=inputs,
    scales=(Scale("scales_ptr", "n", "scale"),),
    explain_block=explain_block,
)
