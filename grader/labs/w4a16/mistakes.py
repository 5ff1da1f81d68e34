"""W4A16: unpacking and scales, as they go wrong. Then what goes wrong in any tiled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from grader.labs.generic_mistakes import generic_mistakes
from grader.labs.imitation import Imitation, Mistake, product, reread, tiles
from grader.labs.tiling_mistakes import (
    Operands,
    Reading,
    sizes,
)
from grader.model import Config, Problem

Sign = Callable[[torch.Tensor], torch.Tensor]
Place = Callable[[torch.Tensor, torch.Tensor, int, int], tuple[torch.Tensor, torch.Tensor]]
"""From k [K, 1], n [1, N], K and N: the flat offset of the word, and the nibble's number in it."""


def in_order(k: torch.Tensor, n: torch.Tensor, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Element k of column n is nibble k % 8 of word (k // 8, n)."""
    return k // 8 * N + n, k % 8


def packed_as(*elements: int) -> Place:
    """Nibble i of a word holds the element elements[i] of its eight."""
    nibble_of = torch.tensor([elements.index(element) for element in range(8)])
    return lambda k, n, K, N: (k // 8 * N + n, nibble_of[k % 8])


reversed_order = packed_as(7, 6, 5, 4, 3, 2, 1, 0)
interleaved = packed_as(0, 2, 4, 6, 1, 3, 5, 7)
pairs_swapped = packed_as(1, 0, 3, 2, 5, 4, 7, 6)
JOINED = ((0, 4, 1, 5, 2, 6, 3, 7), (0, 1, 4, 5, 2, 3, 6, 7), (0, 2, 1, 3, 4, 6, 5, 7), (0, 4, 2, 6, 1, 5, 3, 7))
"""The other orders that joining or stacking halves, two at a time, may leave behind."""


def planes(k: torch.Tensor, n: torch.Tensor, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    return k % (K // 8) * N + n, k // (K // 8)


def along_n(k: torch.Tensor, n: torch.Tensor, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    return k * (N // 8) + n // 8, n % 8


def row_major_in_n(k: torch.Tensor, n: torch.Tensor, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    return n * (K // 8) + k // 8, k % 8


def lowest(k: torch.Tensor, n: torch.Tensor, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    return k // 8 * N + n, torch.zeros_like(k)


def by_nibbles(k: torch.Tensor, tile: int) -> torch.Tensor:
    """In each tile first nibble 0 of all words, then nibble 1 of all words, ..."""
    return k - k % tile + k % tile % (tile // 8) * 8 + k % tile // (tile // 8)


def by_words(k: torch.Tensor, tile: int) -> torch.Tensor:
    """The way back from `by_nibbles`."""
    return k - k % tile + k % 8 * (tile // 8) + k % tile // 8


def eight_tiles_on(k: torch.Tensor, tile: int) -> torch.Tensor:
    """Words counted like elements: a turn moves on by BLOCK_K words, which are eight tiles."""
    return k // tile * tile * 8 + k % tile


def signed(nibble: torch.Tensor) -> torch.Tensor:
    """Two's complement."""
    return torch.where(nibble > 7, nibble - 16, nibble)


def magnitude(nibble: torch.Tensor) -> torch.Tensor:
    return torch.where(nibble > 7, 8 - nibble, nibble)


def eight_positive(nibble: torch.Tensor) -> torch.Tensor:
    return torch.where(nibble > 8, nibble - 16, nibble)


@dataclass(frozen=True)
class Decoding:
    """One way to read qweight: where element (k, n) lies, and which number a nibble is."""

    place: Place = in_order
    sign: Sign = signed

    def __call__(self, problem: Problem, k: torch.Tensor | None = None) -> torch.Tensor:
        """The integers as float64 [K, N]; k: int64 [K'], rows past K hold what memory holds there."""
        _, N, K = sizes(problem)
        rows = torch.arange(K) if k is None else k
        word, nibble = self.place(rows[:, None], torch.arange(N)[None, :], K, N)
        words = reread(problem.tensors["qweight_ptr"], word.expand(len(rows), N)).to(torch.int64)
        return self.sign(words >> 4 * nibble & 0xF).double()


RIGHT = Decoding()


def activations(problem: Problem) -> torch.Tensor:
    return problem.tensors["x_ptr"].double()


def scales(problem: Problem) -> torch.Tensor:
    return problem.tensors["scales_ptr"].double()


def weight(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    return RIGHT(problem, k).t() * scales(problem)[:, None]


def read_as(problem: Problem, x: torch.Tensor) -> list[Reading]:
    return [(x, None)]


def unscaled(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return activations(problem), RIGHT(problem).t(), scales(problem)[None, :]


def decoded(*decodings: Decoding) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """The product with the weight unpacked in another way."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        for decoding in decodings:
            w = decoding(problem).t() * scales(problem)[:, None]
            yield product(activations(problem), w, rounded=True)

    return imitate


def both_wrong(sign: Sign) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Another meaning of the nibble, and another order too."""
    return decoded(*(Decoding(place, sign) for place in (reversed_order, interleaved, along_n, planes)))


def unmasked(problem: Problem, config: Config) -> Iterator[Imitation]:
    _, N, K = sizes(problem)
    k = torch.arange(K)[:, None]
    words = problem.tensors["qweight_ptr"][k // 8, torch.arange(N)[None, :]]
    for logical in (False, True):
        shifted = (words.to(torch.int64) & 0xFFFFFFFF if logical else words.to(torch.int64)) >> 4 * (k % 8)
        for q in (torch.where(shifted > 7, shifted - 16, shifted), shifted):
            w = q.to(torch.float16).double().t()
            yield product(activations(problem), w * scales(problem)[:, None], rounded=True)


def shifted_by_bits(problem: Problem, config: Config) -> Iterator[Imitation]:
    _, N, K = sizes(problem)
    k = torch.arange(K)[:, None]
    words = problem.tensors["qweight_ptr"][k // 8, torch.arange(N)[None, :]].to(torch.int64)
    q = signed(words >> k % 8 & 0xF).double()
    yield product(activations(problem), q.t() * scales(problem)[:, None], rounded=True)


def shifted_left(problem: Problem, config: Config) -> Iterator[Imitation]:
    first = torch.arange(problem.scalars["K"])[:, None] % 8 == 0
    yield product(activations(problem), (RIGHT(problem) * first).t() * scales(problem)[:, None], rounded=True)


def in_tile_order(
    order: Callable[[torch.Tensor, int], torch.Tensor],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Element k of X meets element order(k, BLOCK_K) of W; masked ones are zeros."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        _, _, K = sizes(problem)
        k = torch.arange(K)
        for tile in tiles(config, "K"):
            if tile > 8 and tile % 8 == 0:
                other = order(k, tile)
                q = RIGHT(problem)[other.clamp(max=K - 1)] * (other < K)[:, None]
                yield product(activations(problem), q.t() * scales(problem)[:, None], rounded=True)

    return imitate


def scaled_by(
    scale: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Right integers, other scales. scale(s, m, n, BLOCK_N): factors of X's rows [M] and of W's rows [N]."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        for tile in tiles(config, "N"):
            left, right = scale(scales(problem), torch.arange(M), torch.arange(N), tile)
            yield product(activations(problem) * left[:, None], RIGHT(problem).t() * right[:, None], rounded=True)

    return imitate


def seen(wrong: Decoding) -> Callable[[Problem, Config], str]:
    """A nibble that is read differently."""

    def witness(problem: Problem, config: Config) -> str:
        right, other = RIGHT(problem), wrong(problem)
        differ = right != other
        if not bool(differ.any()):
            return ""
        k, n = (int(i) for i in differ.nonzero()[0])
        return f"word ({k // 8}, {n}) element {k % 8} is {int(right[k, n])}, your kernel used {int(other[k, n])}"

    return witness


def order(name: str, what: str, place: Place) -> Mistake:
    """A mistake in where a nibble is looked for."""
    hint = (
        "pack eight small numbers into one word by hand and unpack them: which k, and which n, does each nibble hold?"
    )
    return Mistake(name, what, hint, decoded(Decoding(place)), seen(Decoding(place)))


def sign(name: str, what: str, meaning: Sign) -> Mistake:
    """A mistake in what a nibble means."""
    return Mistake(name, what, NIBBLES, decoded(Decoding(sign=meaning)), seen(Decoding(sign=meaning)))


OPERANDS = Operands(read_as, weight, unscaled, rounded=True)
NIBBLES = "write down the sixteen nibbles and the number that each of them stands for"
K_ORDER = "number the k of a tile of X, and those of the opened tile of W: does every k meet itself in the product?"
CHANNELS = "which index of Y do the scales belong to, and how often does a scale belong into the result?"

MISTAKES = (
    sign("unsigned", "int4 read as unsigned", lambda nibble: nibble),
    sign("offset_binary", "8 subtracted from the nibble, as if the zero point were 8", lambda nibble: nibble - 8),
    sign("eight_too_large", "weights that are 8 too large: 0 to 15 instead of -8 to 7", lambda nibble: signed(nibble) + 8),
    sign("eight_too_small", "8 subtracted from numbers that had their sign already", lambda nibble: signed(nibble) - 8),
    sign("sign_and_magnitude", "bit 3 of the nibble taken for a sign and the rest for the magnitude", magnitude),
    sign("minus_eight_positive", "the nibble of -8 read as 8", eight_positive),
    sign("seven_negative", "the nibble of 7 read as -9", lambda nibble: torch.where(nibble > 6, nibble - 16, nibble)),
    sign("fifteen_subtracted", "15 subtracted from the nibbles of negative numbers, instead of 16",
         lambda nibble: torch.where(nibble > 7, nibble - 15, nibble)),
    order("nibble_order_reversed", "the nibbles of a word taken from the highest down", reversed_order),
    order("nibble_order_interleaved", "the nibbles of a word in the order 0 2 4 6 1 3 5 7", interleaved),
    *(order("nibble_order_permuted", f"the nibbles of a word in the order {' '.join(map(str, elements))}",
            packed_as(*elements)) for elements in JOINED),
    order("nibble_pairs_swapped", "the two nibbles of each byte exchanged", pairs_swapped),
    order("packed_in_planes", "nibble j of the words taken for the j-th eighth of K", planes),
    order("packed_along_n", "eight neighbouring columns looked for in a word, instead of eight neighbouring k", along_n),
    order("words_row_major_in_n", "qweight read as a contiguous [N, K / 8] matrix", row_major_in_n),
    order("lowest_nibble_only", "the lowest nibble of a word used for all eight of its elements", lowest),
    order("four_of_eight_nibbles", "the lower four nibbles of a word used twice",
          lambda k, n, K, N: (k // 8 * N + n, k % 4)),
    order("four_of_eight_nibbles", "the lower nibbles of a word's bytes used twice",
          lambda k, n, K, N: (k // 8 * N + n, k % 4 * 2)),
    *(Mistake("k_orders_differ", "X and the opened words multiplied in different orders of k within a tile", K_ORDER,
              in_tile_order(other)) for other in (by_nibbles, by_words)),
    Mistake("words_advanced_too_far", "words that move on by BLOCK_K rows of qweight a turn, instead of BLOCK_K / 8",
            "how many rows of qweight does a tile of K need?", in_tile_order(eight_tiles_on)),
    Mistake("unsigned", "int4 read as unsigned, in another order than it is packed in", NIBBLES,
            both_wrong(lambda nibble: nibble)),
    Mistake("offset_binary", "8 subtracted from the nibbles, in another order than they are packed in", NIBBLES,
            both_wrong(lambda nibble: nibble - 8)),
    Mistake("no_nibble_mask", "words shifted, but with the higher nibbles still in them",
            "after the shift, which bits belong to the element?", unmasked),
    Mistake("shift_by_bits", "words shifted by k % 8 bits", "how many bits apart are two elements of a word?",
            shifted_by_bits),
    Mistake("shifted_left", "words shifted to the left, which leaves element 0 of each in the lowest bits",
            "in which direction do the bits of an element have to move?", shifted_left),
    Mistake("no_scale", "the product with the integers, without their scale", CHANNELS,
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), torch.ones_like(s)))),
    Mistake("scale_twice", "the product multiplied by the scale twice", CHANNELS,
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), s * s))),
    Mistake("scale_by_row", "the scales taken by row instead of by column", CHANNELS,
            scaled_by(lambda s, m, n, tile: (s[m % len(s)], torch.ones_like(s)))),
    Mistake("scale_without_tile_offset", "every column tile multiplied by the scales of the first one",
            "which scales does the second column tile load?",
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), s[n % tile]))),
    Mistake("one_scale_for_all_channels", "every column multiplied by the first scale", "how many scales are there?",
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), s[:1].expand(len(s))))),
    Mistake("one_scale_for_all_channels", "every column tile multiplied by one scale, the one of the tile's number",
            "how many scales does a column tile need?",
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), s[n // tile]))),
    Mistake("divided_by_scale", "the product divided by the scale", CHANNELS,
            scaled_by(lambda s, m, n, tile: (torch.ones(len(m)).double(), 1 / s))),
    *generic_mistakes(OPERANDS),
)  # fmt: skip
