"""Eight elements to a word: how a kernel may look for one, and which number it may take its four bits for, as stages see it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from grader.labs.divergence import UNPACK
from grader.labs.stages import Array, Blocks, Judgement, Rule, RuleMatches, Values, by_strides
from grader.model import Problem

Meaning = Callable[[Array], Array]
OTHER_BITS = (2, 3, 5, 6, 7, 8, 16)
"""How far apart nibbles are taken to lie that lie four bits apart."""
OTHER_MASKS = (0x1, 0x3, 0xE, 0x10, 0x1E, 0x1F, 0x3F, 0xF0, 0xFF, 0xFFFF)
"""What a shifted word may be masked with instead of 0xf."""
Meanings = Mapping[str, tuple[str, Meaning]]
"""From the name of a mistake to its words and what a nibble of 0 to 15 is taken for; "" is the right one."""


def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
    """Column and first k of a word of qweight by its offset."""
    n, word = by_strides("qweight_ptr", "stride_wn", "stride_wk")(problem, offsets)
    return n, word * 8


def nibbles_of(words: Array) -> Array:
    """int64 [..., 8] of 0 to 15: the nibbles of words, the lowest first."""
    nibbles: Array = words[..., None] >> (4 * np.arange(8)) & 15
    return nibbles


def opened(
    held: Array, words: Array, values: Values, meanings: Meanings, loose: float, slack: Array | float = 0.0, *, in_common: bool = True
) -> list[Judgement] | None:
    """What is wrong with numbers that should be the elements of words: nothing where they are, None where no way explains all.

    held: the numbers, shaped as the values. words: int64, the word of each. loose, slack: how far rounding may have taken one,
    in units of the larger of it and 1, and beyond that. in_common: ask what all numbers have in common, where nothing else explains them.
    """
    nibbles, position = nibbles_of(words), values.partner - values.k
    inside = (position >= 0) & (position < 8)
    position = np.where(inside, position, 0)
    right = meanings[""][1](np.take_along_axis(nibbles, position[..., None], axis=-1)[..., 0]).astype(np.float64)

    def fits(expected: Array) -> Array:
        near: Array = np.abs(held - expected) <= loose * np.maximum(1.0, np.abs(expected)) + slack
        return ~inside | near

    if fits(right).all():
        return []

    def verdict(name: str, reason: str, shows: Array | bool = True) -> Judgement:
        def describe(at: tuple[int, ...]) -> tuple[str, str]:
            word = f"word ({values.k[at] // 8}, {values.row[at]})"
            return (f"element {position[at]} of {word}, {words[at] & 0xFFFFFFFF:#010x}, became {held[at]:.5g}",
                    f"{right[at]:.0f}")  # fmt: skip

        wrong = inside & ~fits(right)
        return Judgement(name, reason, wrong & shows if (wrong & shows).any() else wrong, describe, rank=UNPACK)

    shifted = {
        "no_nibble_mask": ("the word is shifted, but the higher nibbles are not masked away", words >> (4 * position)),
        "nibble_of_n": ("the word is shifted by 4 * (n % 8); it holds eight k, so by 4 * (k % 8)", words >> 4 * (values.row % 8) & 15),
        "shift_by_bits": ("the word is shifted by k % 8 bits, not by 4 * (k % 8)", words >> position & 15),
        **{f"shift_by_{bits}": (f"the word is shifted by {bits} * (k % 8); a nibble has four bits", words >> (bits * position) & 15)
           for bits in OTHER_BITS},
        **{f"mask_of_{mask:#x}": (f"the mask {mask:#x} keeps other bits of the shifted word than its lowest four (0xf)",
                                  words >> (4 * position) & mask)
           for mask in OTHER_MASKS},
        "shifted_before_first": ("the word is shifted by 4 bits before its first nibble is taken: each element comes from the nibble "
                                 "behind its own", words >> (4 * (position + 1)) & 15),
        "shift_beyond_word": ("the word is shifted by 4 * (k % 16), which for every second word is more than the word has bits; it holds "
                              "eight k, so by 4 * (k % 8)", words >> (4 * (values.partner % 16)) & 15),
        "shift_of_a_word": ("the word is shifted by as many bits as it has; its elements lie at bits 4 * (k % 8)", words >> 32 & 15),
        "shift_by_k": ("the word is shifted by 4 * k, whatever word it is; it holds eight k, so by 4 * (k % 8)",
                       words >> np.minimum(4 * values.partner, 63) & 15),
        "shifted_left": ("the word is shifted to the left", (words << (4 * position)) & 15),
    }
    for name, (_, meaning) in meanings.items():
        order = _order(held, nibbles, position, meaning, loose, slack, inside)
        if order is None:
            continue
        taken = np.array([order.get(element, element) for element in range(8)])[position]
        number = np.take_along_axis(nibbles, taken[..., None], axis=-1)[..., 0]
        verdicts = [verdict(*_order_words(order), shows=taken != position)] if order else []
        if name:
            verdicts.append(verdict(name, meanings[name][0], shows=meaning(number) != meanings[""][1](number)))
        return verdicts
    plain: tuple[str, tuple[str, Meaning]] = "", ("", lambda u: u)
    for (also, (why, meaning)), (name, (reason, integers)) in itertools.product((plain, *meanings.items()), shifted.items()):
        with np.errstate(over="ignore"):
            as_half = meaning(integers).astype(np.float16).astype(np.float64)
        if (fits(meaning(integers)) | (as_half == held)).all():
            return [verdict(name, reason), *([verdict(also, why)] if also else [])]
    alone = in_common and not (values.beside != 0).any()  # else what is too much may be subtracted with a sum of X
    told = _alike(held[inside], right[inside], fits(right)[inside]) if alone else None
    return [verdict(*told)] if told else None


def _alike(held: Array, right: Array, fits: Array) -> tuple[str, str] | None:
    """What all elements, or all negative ones, have in common that is wrong with them: a name and the words."""
    off, negative = np.unique(held - right), right < 0
    if len(off) == 1 and off[0] == np.round(off[0]) and abs(off[0]) <= 16:
        return "weights_off_by_one_number", f"every element is {abs(off[0]):.0f} too {'small' if off[0] < 0 else 'large'}"
    became = np.unique(held[negative])
    if len(became) == 1 and fits[~negative].all() and len(np.unique(right[negative])) > 1:
        return "one_number_for_negative", f"every negative element becomes {became[0]:.5g}"
    return None


def _order(
    held: Array, nibbles: Array, position: Array, meaning: Meaning, loose: float, slack: Array | float, inside: Array
) -> dict[int, int] | None:
    """From an element's number in its word to the nibble that is used for it; {} where all are right, None: none fits."""
    numbers = meaning(nibbles)
    found = {}
    for element in range(8):
        here = inside & (position == element)
        if not here.any():
            continue
        near = loose * np.maximum(1.0, np.abs(numbers[here])) + np.broadcast_to(slack, held.shape)[here][..., None]
        agrees = (np.abs(held[here][..., None] - numbers[here]) <= near).all(axis=0)
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
    if (blocks.row == blocks.n).all():
        rules += [Rule("words", name, reason) for name, reason, word in _words(blocks.left_k, K) if (blocks.k // 8 == word).all()]
    return RuleMatches(frozenset({"words"}), tuple(dict.fromkeys(rules)))


TILES = (16, 32, 64, 128, 256, 512)


def _words(k: Array, K: int) -> Iterator[tuple[str, str, Array]]:
    """Other numbers of the word in which element k is looked for."""
    yield "packed_in_planes", "nibble j of the words is taken for the j-th eighth of K; a word holds eight neighbouring k", k % (K // 8)
    for tile in TILES:
        first, within = k // tile * (tile // 8), k % tile
        if tile < K:
            reason = f"nibble j of a tile's words is taken for the j-th eighth of {tile} k; a word holds eight neighbouring k"
            if tile == 64:  # it has eight words: both rules then lead to the same one
                reason = f"element k is looked for in word k % 8 of its {tile} k, whose number is k // 8: a word holds eight neighbouring k"
            yield "k_orders_differ", reason, first + within % (tile // 8)
        reason = "element k is looked for in word k % 8 of its tile; that is its place in the word, whose number is k // 8"
        yield "word_by_place", reason, first + k % 8
    for per_word in (1, 2, 4, 16):
        yield "word_of_k", f"element k is looked for in word k // {per_word}; a word holds eight", k // per_word
