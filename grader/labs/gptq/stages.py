"""GPTQ, stage by stage: X as it is; a nibble out of its word, less a zero point and one; a scale for each group of a column.

The zero point may be subtracted from the weight or, multiplied with a sum of X, from the result; the scale may be multiplied
into the weight or into a partial sum. What counts is what an element of X is multiplied with all in all, so that is
looked at first, and the parts only where it is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from grader.labs.activations import judge_fp16_activations
from grader.labs.divergence import UNPACK, WEIGHT
from grader.labs.gptq.groups import SCALES, ZEROS, GroupElements, elements_taken, masked_out, own_scale, own_zero
from grader.labs.gptq.packing import pack_weight, pack_zeros
from grader.labs.inputs import normal
from grader.labs.nibbles import OTHER_BITS, OTHER_MASKS, Meanings, explain_block, nibbles_of, opened, place
from grader.labs.stages import Array, Judgement, Operand, Scale, Stages, Values, by_strides, elements, exact, refilled
from grader.model import Problem

ROUNDING = 2e-3
"""How far fp16 may take a weight off, in units of its parts q s and (z + 1) s."""
FP16_HOLDS = 65000
"""What is larger may have become infinite."""
IMPOSSIBLE = -99
"""No zero point."""
SOME, MORE = 64, 1024
"""How many values are asked first, and then, before a way is tried on all."""
MEANINGS: Meanings = {
    "": ("", lambda u: u),
    "signed": ("the nibble is read as two's complement, -8 to 7, and is 0 to 15", lambda u: np.where(u > 7, u - 16, u)),
    "three_bits": ("the mask keeps three bits of a nibble, which has four", lambda u: u & 7),
    "eight_too_small": ("8 is subtracted from the nibble besides its zero point", lambda u: u - 8),
}


Number = Callable[[Array], Array]
Lookup = Callable[["Parts"], Array]


@dataclass(frozen=True)
class Way:
    """One way to do a part of the work, the right one or a mistaken one. made: what it makes of the parts. first: the way that comes
    before it, which may be mistaken as well."""

    name: str
    reason: str
    made: Lookup
    first: Way | None = None


def _nibble(position: Lookup) -> Lookup:
    return lambda parts: parts.zero_words >> 4 * position(parts) & 15


def _shifted(bits: int) -> Lookup:
    return lambda parts: parts.zero_words >> bits * (parts.n % 8) & 15


def _if(shows: bool | np.bool_, made: Array) -> Array:
    """What is made where these columns show that it is made so: shifts of whole words all give the same."""
    return made if shows else np.full(made.shape, IMPOSSIBLE)


def _masked(mask: int) -> Lookup:
    return lambda parts: parts.zero_words >> 4 * (parts.n % 8) & mask


LOOKUPS = (
    Way("", "", _nibble(lambda parts: parts.n % 8)),
    Way("zero_order_reversed", "the zero points of a word are taken from the highest nibble down", _nibble(lambda parts: 7 - parts.n % 8)),
    Way("zero_order_interleaved", "the zero points of a word are taken in AWQ's order, and column n has nibble n % 8",
        _nibble(lambda parts: parts.n % 8 // 2 + 4 * (parts.n % 2))),
    Way("zero_lowest_nibble_only", "the lowest nibble of a word of zeros is used for all eight of its columns",
        _nibble(lambda parts: 0 * parts.n)),
    Way("zero_nibble_of_k", "the word of zeros is shifted by 4 * (k % 8), like one of weights; it holds eight columns, so by 4 * (n % 8)",
        _nibble(lambda parts: np.clip(parts.values.partner, 0, None) % 8)),
    Way("zero_nibble_of_word", "the word of zeros is shifted by 4 * (n // 8), its own number; column n has nibble n % 8 in it",
        lambda parts: _if(parts.n.min() < 64, parts.zero_words >> np.minimum(4 * (parts.n // 8), 63) & 15)),
    Way("zeros_packed_along_groups", "the word of zeros is shifted by 4 * (g % 8); it holds eight columns, so by 4 * (n % 8)",
        _nibble(lambda parts: parts.group % 8)),
    Way("zero_pairs_swapped", "the two nibbles of each byte of zeros are exchanged", _nibble(lambda parts: parts.n % 8 ^ 1)),
    Way("zero_shift_by_bits", "the word of zeros is shifted by n % 8 bits, not by 4 * (n % 8)",
        lambda parts: parts.zero_words >> parts.n % 8 & 15),
    *(Way("zero_shift_otherwise", f"the word of zeros is shifted by {bits} * (n % 8); a nibble has four bits", _shifted(bits))
      for bits in OTHER_BITS),
    *(Way("zero_mask_otherwise", f"the mask {mask:#x} keeps other bits of the shifted word of zeros than its lowest four (0xf)",
          _masked(mask)) for mask in OTHER_MASKS),
    Way("zero_not_masked", "the word of zeros is shifted, but the higher nibbles are not masked away",
        lambda parts: parts.zero_words >> 4 * (parts.n % 8)),
    Way("zero_one_in_mask", "the one is added to the mask, which is 16 then: Python adds before it takes &, so it has to be "
        "((word >> shift) & 0xF) + 1", lambda parts: (parts.zero_words >> 4 * (parts.n % 8) & 16) - 1),
    Way("zero_shift_by_n", "the word of zeros is shifted by 4 * n, whatever word it is; it holds eight columns, so by 4 * (n % 8)",
        lambda parts: _if(parts.n.min() < 8 <= parts.n.max(), parts.zero_words >> np.minimum(4 * parts.n, 63) & 15)),
)  # fmt: skip
"""Where the stored zero point is looked for in its word."""
NUMBERS: tuple[tuple[str, str, Number], ...] = (
    ("", "", lambda stored: stored + 1),
    ("zero_not_plus_one", "the zero point is subtracted as it is stored, which is one too little", lambda stored: stored),
    ("zero_wraps", "one is added in four bits, so that a stored 15 becomes 0 instead of 16", lambda stored: (stored + 1) % 16),
    ("zero_wraps ", "the stored zero point is read as two's complement, -8 to 7; it is 0 to 15",
     lambda stored: np.where(stored > 7, stored - 16, stored) + 1),
    ("zero_one_too_large", "two are added to the stored zero point; what is subtracted is one more than what is stored",
     lambda stored: stored + 2),
    ("zero_less_one", "one is taken away from the stored zero point instead of added", lambda stored: stored - 1),
)  # fmt: skip
"""What is made of it."""


@dataclass(frozen=True)
class Formula:
    """How q, the zero point and the scale are put together. nibble(held, zero, scale): q, of what an operand holds.

    held: the operand without its scales, by the power that they have in it. scaled: for operands with a scale only.
    """

    name: str
    reason: str
    nibble: Callable[[Array, Array, Array], Array]
    scaled: bool = False


FORMULAS = (
    Formula("", "", lambda held, zero, scale: held + zero),
    Formula("zero_minus_weight", "the nibble is subtracted from the zero point", lambda held, zero, scale: zero - held),
    Formula("zero_added", "the zero point is added to the nibble, not subtracted", lambda held, zero, scale: held - zero),
    Formula("zero_not_scaled", "the scale multiplies the nibble alone, and the zero point is subtracted without it",
         lambda held, zero, scale: held + zero / scale, scaled=True),
    Formula("weight_not_scaled", "the scale multiplies the zero point alone, and the nibble goes without it",
         lambda held, zero, scale: (held + zero) * scale, scaled=True),
    Formula("zero_not_scaled", "z + 1 * s is subtracted, where (z + 1) * s is meant: the scale multiplies the one alone",
         lambda held, zero, scale: held + (zero - 1) / scale + 1, scaled=True),
    Formula("zero_not_plus_one", "z * s + 1 is subtracted, where (z + 1) * s is meant: the scale leaves out the one",
         lambda held, zero, scale: held + (zero - 1) + 1 / scale, scaled=True),
    Formula("zero_scaled_twice", "the zero point is multiplied by the scale twice",
         lambda held, zero, scale: held + zero * scale, scaled=True),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Parts:
    """What weights are made of, all arrays of the values' shape.

    n, group: the weight's column and the group of its k. words: its word; zero_words, scale: the elements that were taken,
    the right ones where none, or several, were. weight: what its X should be multiplied with; slack: how far rounding may
    take that.
    """

    values: Values
    n: Array
    group: Array
    words: Array
    zero_words: Array
    scale: Array
    weight: Array
    slack: Array

    @property
    def wrong(self) -> Array:
        """Where an element of X is multiplied with something else than its weight, all in all."""
        found: Array = ~(np.abs(self.values.value * self.values.factor + self.values.beside - self.weight) <= self.slack)
        return found


@dataclass(frozen=True, eq=False)
class Making:
    """How an operand comes about. power: of the scale in it; zero: what was subtracted from its nibble."""

    verdicts: list[Judgement]
    power: int
    zero: Array


def parts_of(problem: Problem, values: Values) -> Parts:
    """The parts that were really taken, and the weight that the right ones make."""
    n, k = values.row, values.k
    own = {SCALES: own_scale(problem, n, k), ZEROS: own_zero(problem, n, k)}
    used = {tensor: _taken(values, tensor, offsets) for tensor, offsets in own.items()}
    words = exact(problem, "qweight_ptr").astype(np.int64)[k // 8, n]
    q = np.take_along_axis(nibbles_of(words), np.clip(values.partner - k, 0, 7)[..., None], axis=-1)[..., 0]
    zero = (elements(problem, ZEROS, own[ZEROS]).astype(np.int64) >> 4 * (n % 8) & 15) + 1
    scale, zero_words = elements(problem, SCALES, own[SCALES]), elements(problem, ZEROS, used[ZEROS])
    return Parts(
        values, n, k // problem.scalars["group_size"], words, np.nan_to_num(zero_words).astype(np.int64),
        elements(problem, SCALES, used[SCALES]), (q - zero) * scale, ROUNDING * (q + zero) * np.abs(scale),
    )  # fmt: skip


def _taken(values: Values, tensor: str, otherwise: Array) -> Array:
    """Offsets of the elements that were taken, wherever on the way."""
    for used in (values.beside_used, values.passed, values.used):
        if tensor in used:
            otherwise = np.where(used[tensor] >= 0, used[tensor], otherwise)
    return otherwise


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """Which elements a weight is made of, and how. Of what no known way explains nothing is said."""
    parts = parts_of(problem, values)
    as_if_right: Array = np.divide(parts.scale, values.factor, out=np.ones_like(parts.scale), where=values.factor != 0)
    if not parts.wrong.any():
        return (), as_if_right
    none = np.full(values.row.shape, -1)
    used = {tensor: _taken(values, tensor, none) for tensor in (SCALES, ZEROS)}
    own = values.meets & (parts.n == values.target)  # of other weights than those that were meant nothing is known
    elsewhere = elements_taken(problem, GroupElements(used, parts.n, np.where(own, values.partner, values.k), parts.wrong & own))
    everything = (*values.used.values(), *values.passed.values(), *values.beside_used.values())
    masked = {tensor: (used[tensor] == -1) & own & parts.wrong for tensor in used if tensor in values.used}
    elsewhere += masked_out(problem, masked, parts.n, values.k)
    known = np.isfinite(parts.scale)  # a scale from outside the tensor says nothing of the weights that it was taken for
    for lost in masked.values():
        known &= ~lost
    if any((offsets == -2).any() for offsets in everything) or not known.any():
        return elsewhere, as_if_right
    explained = _operand(_at(parts, known))
    if explained is None:
        return elsewhere, as_if_right
    verdicts = [*explained.verdicts, *_later(_at(parts, known), explained)]
    return [*elsewhere, *(_widened(verdict, known) for verdict in verdicts)], np.where(known, parts.scale**explained.power, as_if_right)


def _widened(verdict: Judgement, known: Array) -> Judgement:
    """A judgement of the values that are known, as one of all."""
    places = np.flatnonzero(known)
    wrong = np.zeros(known.shape, dtype=bool)
    wrong[places] = verdict.wrong
    return replace(verdict, wrong=wrong, describe=lambda at: verdict.describe((int(np.searchsorted(places, at[0])),)))


def _operand(parts: Parts) -> Making | None:
    """The explanation of what the operand holds that needs the fewest mistakes; None where none is known."""
    values, best, fewest = parts.values, None, 4
    few, more = (_at(parts, np.linspace(0, len(values.value) - 1, min(size, len(values.value))).astype(int)) for size in (SOME, MORE))
    for cost, power, formula, zeros in _candidates(parts):
        if cost >= fewest:
            break
        if not _plausible(few, power, formula, zeros.made(few)) and cost:
            continue
        if _opened(more, power, formula, zeros.made(more).astype(np.float64)) is None:
            continue
        zero = zeros.made(parts).astype(np.float64)
        verdicts = _opened(parts, power, formula, zero)
        if verdicts is None or cost + len(verdicts) >= fewest:
            continue
        fewest = cost + len(verdicts)
        best = Making([*_zero_verdicts(parts, zeros, zero), *_formula_verdicts(parts, formula), *verdicts], power, zero)
    return best or _scaled_with_1024(parts) or _not_masked(parts)


def _not_masked(parts: Parts) -> Making | None:
    """Words that were shifted and keep their higher nibbles: numbers beyond fp16, beside which other mistakes are small."""
    values = parts.values
    if (np.abs(values.value) <= 40 * np.maximum(1.0, np.abs(parts.scale))).all():  # nibbles and zero points make less
        return None
    position = np.clip(values.partner - values.k, 0, 7)
    shifted = parts.words >> 4 * position

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"element {position[at]} of word ({values.k[at] // 8}, {values.row[at]}), {parts.words[at] & 0xFFFFFFFF:#010x}, "
                f"became {shifted[at]}", f"{shifted[at] & 15}")  # fmt: skip

    kept = Judgement("no_nibble_mask", "the word is shifted, but the higher nibbles are not masked away", shifted != shifted & 15,
                     describe, rank=UNPACK)  # fmt: skip
    plain = [(power, zeros) for _, power, formula, zeros in _candidates(parts) if not formula.name and power in (0, 1)]
    for (number, verdicts), (power, zeros) in itertools.product(((shifted, [kept]), (shifted & 15, [])), plain):
        zero = zeros.made(parts)
        made = (number - zero) * parts.scale**power
        near = np.abs(values.value - made) <= 2 * ROUNDING * np.abs(made) + ROUNDING * np.abs(parts.scale) ** power
        beyond = ~np.isfinite(values.value) & ((np.abs(number - zero) > FP16_HOLDS) | (np.abs(made) > FP16_HOLDS))
        if (near | beyond).all():
            return Making([*verdicts, *_zero_verdicts(parts, zeros, zero)], power, zero.astype(np.float64))
    return None


def _scaled_with_1024(parts: Parts) -> Making | None:
    """Bits of fp16 that mean 1024 + q, multiplied by the scale before 1024 is subtracted."""
    q = np.take_along_axis(nibbles_of(parts.words), np.clip(parts.values.partner - parts.values.k, 0, 7)[..., None], axis=-1)[..., 0]
    zero = LOOKUPS[0].made(parts) + 1
    each = [((number + 1024) * parts.scale).astype(np.float16) for number in (q, zero)]
    if not np.allclose(parts.values.value, (each[0] - each[1]).astype(np.float64), rtol=1e-3, atol=1e-3 * float(parts.scale.min())):
        return None
    words = "1024 + q is scaled in fp16 before 1024 is subtracted, where neighbouring numbers are far apart"
    formula = Formula("scaled_with_1024", words, lambda held, zero, scale: held + zero)
    return Making(_formula_verdicts(parts, formula), 1, zero.astype(np.float64))


def _candidates(parts: Parts) -> Iterator[tuple[int, int, Formula, Way]]:
    """Ways to make the operand, those with the fewest mistakes first; the power of the scale is for others to judge."""
    scaled = SCALES in parts.values.used
    powers = (1, -1, 2) if scaled else (0,)
    found = [
        (cost + bool(formula.name) + (power not in (0, 1)), power, formula, zeros)
        for formula in FORMULAS if scaled or not formula.scaled
        for power in (powers if not formula.scaled else (1,))
        for cost, zeros in _zeros(parts)
    ]  # fmt: skip
    yield from sorted(found, key=lambda one: one[0])


def _zeros(parts: Parts) -> Iterator[tuple[int, Way]]:
    """What may have been subtracted in the operand, and how many mistakes that takes."""
    if ZEROS in parts.values.used:
        for lookup in LOOKUPS:
            for name, reason, number in NUMBERS:
                way = Way(name or lookup.name, reason or lookup.reason, _composed(lookup, number), lookup if name else None)
                yield bool(name) + bool(lookup.name), way
        return
    later = bool((parts.values.beside != 0).any())
    yield (0, Way("", "", _constant(0))) if later else (1, Way("no_zero", "the zero point is subtracted nowhere", _constant(0)))
    if not later:
        yield 1, Way("zero_always_8", "8 is subtracted from every nibble, as if there were no zero points", _constant(8))
        for constant in (1, 7, 9, 16):
            yield 1, Way("zeros_unused", f"{constant} is subtracted from every nibble, and no element of zeros", _constant(constant))


def _composed(lookup: Way, number: Number) -> Lookup:
    return lambda parts: number(lookup.made(parts))


def _constant(zero: int) -> Lookup:
    return lambda parts: np.full(parts.n.shape, zero)


def _at(parts: Parts, some: Array) -> Parts:
    """Some of the parts."""
    values = replace(parts.values, **{
        name: getattr(parts.values, name)[some] for name in ("value", "row", "k", "partner", "target", "factor", "beside", "meets")
    })  # fmt: skip
    used, passed, beside_used = (
        {tensor: offsets[some] for tensor, offsets in one.items()} for one in (values.used, values.passed, values.beside_used)
    )
    values = replace(values, used=used, passed=passed, beside_used=beside_used)
    own = (getattr(parts, name)[some] for name in ("n", "group", "words", "zero_words", "scale", "weight", "slack"))
    return Parts(values, *own)


def _plausible(few: Parts, power: int, formula: Formula, zero: Array) -> bool:
    """Whether what is left of a few operands, less their zero points, are nibbles: whole numbers, and small."""
    q, slack = _nibbles_held(few, power, formula, zero)
    near: Array = (np.abs(q - np.round(q)) <= slack + ROUNDING * 16) & (np.abs(q) < 17)
    return bool(near.all())


def _nibbles_held(parts: Parts, power: int, formula: Formula, zero: Array) -> tuple[Array, Array]:
    """q of what the operand holds, and how far rounding may have taken it."""
    held = parts.values.value / parts.scale**power
    zero = zero.astype(np.float64)
    slack = np.minimum(ROUNDING / 2 * (np.abs(held) + np.abs(zero)), 0.3) if power else np.zeros(held.shape)
    return formula.nibble(held, zero, parts.scale), slack


def _opened(parts: Parts, power: int, formula: Formula, zero: Array) -> list[Judgement] | None:
    """What is wrong with the nibbles; None where the operand is something else."""
    q, slack = _nibbles_held(parts, power, formula, zero)
    if power:
        q, loose = np.where(np.abs(q - np.round(q)) <= slack + ROUNDING * 16, np.round(q) + 0.0, q), ROUNDING
    else:
        loose = 1e-6
    return opened(q, parts.words, parts.values, MEANINGS, loose, slack, in_common=False)


def _zero_verdicts(parts: Parts, zeros: Way, zero: Array) -> list[Judgement]:
    """Of what is subtracted instead of the right number of the word that was taken."""
    if not zeros.name:
        return []
    right = LOOKUPS[0].made(parts) + 1

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        what = f"{zero[at]:.0f}" if zeros.name != "no_zero" else "nothing"
        return (f"{what} is subtracted from the nibble of W[{parts.n[at]}, {parts.values.partner[at]}], whose stored zero point "
                f"is {right[at] - 1}", f"{right[at]}")  # fmt: skip

    tensor = ZEROS if ZEROS in (*parts.values.used, *parts.values.beside_used) else ""
    found = [(zeros, zero != right)]
    if zeros.first and zeros.first.name:
        found.insert(0, (zeros.first, zeros.first.made(parts) != right - 1))
    return [Judgement(way.name.strip(), way.reason, wrong, describe, rank=UNPACK, tensor=tensor) for way, wrong in found]


def _formula_verdicts(parts: Parts, formula: Formula) -> list[Judgement]:
    if not formula.name:
        return []

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the right operand holds {parts.values.value[at]:.5g} for W[{parts.n[at]}, {parts.values.partner[at]}]",
                "(q - (z + 1)) * s" + f" = {parts.weight[at]:.5g}" * (SCALES in parts.values.used))  # fmt: skip

    return [Judgement(formula.name, formula.reason, parts.wrong, describe, rank=WEIGHT)]


def _later(parts: Parts, explained: Making) -> list[Judgement]:
    """What is wrong with the zero points that are subtracted from the result, multiplied with sums of X."""
    values = parts.values
    if not (values.beside != 0).any():
        return []
    each = values.factor * parts.scale**explained.power  # what the nibble is multiplied with, all in all
    zero: Array = -np.divide(values.beside, each, out=np.zeros_like(each), where=each != 0)
    if ZEROS not in values.beside_used:
        always_8 = np.allclose(zero, 8, rtol=ROUNDING)
        way = Way("zero_always_8", "8 is subtracted from every nibble, as if there were no zero points", _constant(8))
        return _zero_verdicts(parts, way, zero) if always_8 else []
    there = values.beside_used[ZEROS] >= 0
    if ZEROS in values.used:
        return [_missed(parts, there, "zero_twice", "the zero point is subtracted from the weight and from the result")]
    for lookup in LOOKUPS:
        for name, reason, number in NUMBERS:
            made = number(lookup.made(parts)).astype(np.float64)
            if (name and lookup.name) or not np.allclose(zero[there], made[there], rtol=ROUNDING, atol=ROUNDING):
                continue
            way = Way(name or lookup.name, reason or lookup.reason, _composed(lookup, number))
            gone = [] if there.all() else [
                _missed(parts, ~there, "zero_not_everywhere", "the sum of X that the zero point is multiplied with lacks some k")
            ]  # fmt: skip
            return [*_zero_verdicts(parts, way, made), *gone]
    right = LOOKUPS[0].made(parts) + 1.0
    for name, reason, made in (
        ("zero_added", "the zero point is added, not subtracted", -right),
        ("zero_not_scaled", "the scale multiplies x q alone, and the zero point is subtracted without it", right / parts.scale),
        ("zero_scaled_twice", "the zero point is multiplied by the scale twice", right * parts.scale),
    ):
        scaled = np.allclose(each, parts.scale, rtol=ROUNDING)  # else the scale itself is what is wrong
        if np.allclose(zero[there], made[there], rtol=ROUNDING) and scaled:
            return [_missed(parts, there, name, reason)]
    return []


def _missed(parts: Parts, wrong: Array, name: str, reason: str) -> Judgement:
    values = parts.values

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"X[..., {values.partner[at]}] is multiplied with {values.value[at] * values.factor[at]:.5g} and with "
                f"{values.beside[at]:.5g} for column {parts.n[at]}", f"{parts.weight[at]:.5g} in all")  # fmt: skip

    return Judgement(name, reason, wrong, describe, rank=UNPACK, tensor=ZEROS)


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random fp16 X, every nibble and every zero point in every position, distinct scales."""
    M, N, K = (problem.scalars[name] for name in ("M", "N", "K"))
    groups = K // problem.scalars["group_size"]
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    q = torch.randint(0, 16, (K, N), generator=generator)
    zeros = torch.randint(1, 17, (groups, N), generator=generator)
    scales = (0.02 + 0.05 * torch.rand(groups, N, generator=generator)).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "qweight_ptr": pack_weight(q), ZEROS: pack_zeros(zeros), SCALES: scales})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("qweight_ptr", "W", place, ("stride_wn", "stride_wk"), unit=8),
    judge_left=judge_fp16_activations,
    judge_right=judge_right,
    inputs=inputs,
    scales=(Scale(SCALES, "n", "scale", at=own_scale),),
    subtracted=ZEROS,
    telling=("groups_of_32", "all_tails"),
    explain_block=explain_block,
)
