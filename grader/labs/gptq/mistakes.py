"""GPTQ: words, zero points, groups and scales, as they go wrong. Then what goes wrong in any tiled product.

These are for kernels that the ledger cannot follow, and tell classes apart that it cannot. Wrong places of zero points, and
scales and zero points of other groups and columns, are read off probing inputs where it does not name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch

from grader.labs.generic_mistakes import generic_mistakes
from grader.labs.imitation import Imitation, Mistake, product, reread, tiles
from grader.labs.tiling_mistakes import Operands, Reading, sizes
from grader.model import Config, Problem

Meaning = Callable[[torch.Tensor], torch.Tensor]
Place = Callable[[Problem, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""From k or group [R, 1] and n [1, N]: the flat offset of the word, and the nibble's number in it."""
Group = Callable[[Problem, torch.Tensor], torch.Tensor]
"""From k [R, 1]: the group that is looked up for it."""
Combined = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Imitations = Callable[[Problem, Config], Iterable[Imitation]]


def words_at(problem: Problem, j: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Flat offset of word (j, n) of qweight."""
    return j * problem.scalars["stride_wk"] + n * problem.scalars["stride_wn"]


def zeros_at(problem: Problem, g: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    """Flat offset of word (g, j) of the zeros."""
    return g * problem.scalars["stride_zg"] + j * problem.scalars["stride_zn"]


def packed_as(*elements: int) -> Place:
    """Nibble i of a word of qweight holds the element elements[i] of its eight."""
    nibble_of = torch.tensor([elements.index(element) for element in range(8)])
    return lambda problem, k, n: (words_at(problem, k // 8, n), nibble_of[k % 8])


def zeros_in_order(problem: Problem, g: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The word of zeros of column n, and its nibble there."""
    return zeros_at(problem, g, n // 8), n % 8


q_in_order = packed_as(*range(8))
BACKWARDS = tuple(reversed(range(8)))
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
"""Nibble i of a word in AWQ's checkpoints, which look much like GPTQ's otherwise, holds element AWQ[i]."""
PAIRS = (1, 0, 3, 2, 5, 4, 7, 6)


def own_group(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    return k // problem.scalars["group_size"]


@dataclass(frozen=True)
class Form:
    """One way to make the weight: where q, zero point and scale are looked for, what a nibble means, how they are put together."""

    place: Place = q_in_order
    meaning: Meaning = lambda nibble: nibble
    zero_place: Place = zeros_in_order
    zero_meaning: Meaning = lambda stored: stored + 1
    zero_group: Group = own_group
    scale_group: Group = own_group
    contiguous_scales: bool = False
    combined: Combined = lambda q, zero, scale: (q - zero) * scale

    def __call__(self, problem: Problem, k: torch.Tensor | None = None) -> torch.Tensor:
        """The weight as float64 [N, K']; k: int64 [K'], rows past K hold what memory holds there."""
        _, N, K = sizes(problem)
        rows, n = (torch.arange(K) if k is None else k)[:, None], torch.arange(N)[None, :]
        q = self.meaning(_nibbles(problem, "qweight_ptr", *self.place(problem, rows, n))).double()
        stored = _nibbles(problem, "zeros_ptr", *self.zero_place(problem, self.zero_group(problem, rows), n))
        g = self.scale_group(problem, rows)
        strides = (N, 1) if self.contiguous_scales else (problem.scalars["stride_sg"], problem.scalars["stride_sn"])
        scales = reread(problem.tensors["scales_ptr"], g * strides[0] + n * strides[1]).double()
        return self.combined(q, self.zero_meaning(stored).double(), scales).t()


def _nibbles(problem: Problem, name: str, word: torch.Tensor, nibble: torch.Tensor) -> torch.Tensor:
    """int64 of 0..15: these nibbles of the words at these offsets, spread over each other."""
    return reread(problem.tensors[name], word).to(torch.int64) >> 4 * nibble & 0xF


RIGHT = Form()


def activations(problem: Problem) -> torch.Tensor:
    return problem.tensors["x_ptr"].double()


def weight(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    return RIGHT(problem, k)


def read_as(problem: Problem, x: torch.Tensor) -> list[Reading]:
    return [(x, None)]


def unscaled(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return activations(problem), RIGHT(problem), torch.ones(1, 1, dtype=torch.float64)


def made(*forms: Form) -> Imitations:
    """The product with the weight made in another way."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        for form in forms:
            yield product(activations(problem), form(problem), rounded=True)

    return imitate


def made_in_tiles(form: Callable[[int], Form]) -> Imitations:
    """The same with what depends on BLOCK_K."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        for tile in tiles(config, "K"):
            yield product(activations(problem), form(tile)(problem), rounded=True)

    return imitate


def groups(both: Group) -> Form:
    return Form(zero_group=both, scale_group=both)


def last_group(problem: Problem) -> int:
    return problem.scalars["K"] // problem.scalars["group_size"] - 1


def groups_of(size: int) -> Group:
    return lambda problem, k: (k // size).clamp(max=last_group(problem))


def of_first(tile: int) -> Group:
    """The group in which the tile begins."""
    return lambda problem, k: k // tile * tile // problem.scalars["group_size"]


def of_word(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    """The word's number taken for k."""
    return k // 8 // problem.scalars["group_size"]


def in_tile_order(order: Callable[[torch.Tensor, int], torch.Tensor]) -> Imitations:
    """Element k of X meets element order(k, BLOCK_K) of W; masked ones are zeros."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        K = problem.scalars["K"]
        k = torch.arange(K)
        for tile in tiles(config, "K"):
            if tile > 8 and tile % 8 == 0:
                other = order(k, tile)
                w = RIGHT(problem)[:, other.clamp(max=K - 1)] * (other < K)
                yield product(activations(problem), w, rounded=True)

    return imitate


def by_nibbles(k: torch.Tensor, tile: int) -> torch.Tensor:
    """In each tile first nibble 0 of all words, then nibble 1 of all words, ..."""
    return k - k % tile + k % tile % (tile // 8) * 8 + k % tile // (tile // 8)


def by_words(k: torch.Tensor, tile: int) -> torch.Tensor:
    """The way back from `by_nibbles`."""
    return k - k % tile + k % 8 * (tile // 8) + k % tile // 8


def eight_tiles_on(k: torch.Tensor, tile: int) -> torch.Tensor:
    """Words counted like elements: a turn moves on by BLOCK_K words, which are eight tiles."""
    return k // tile * tile * 8 + k % tile


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float16).double()


def scaled_with_1024(q: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return rounded(rounded((q + 1024) * scale) - rounded((zero + 1024) * scale))


def unmasked(problem: Problem, config: Config) -> Iterator[Imitation]:
    """Words shifted with the sign or with zeros, and the higher nibbles left in them."""
    _, N, K = sizes(problem)
    k = torch.arange(K)[:, None]
    words = reread(problem.tensors["qweight_ptr"], words_at(problem, k // 8, torch.arange(N)[None, :])).to(torch.int64)
    zero = Form(combined=lambda q, zero, scale: zero)(problem)
    scale = Form(combined=lambda q, zero, scale: scale)(problem)
    for logical in (False, True):
        shifted = (words & 0xFFFFFFFF if logical else words) >> 4 * (k % 8)
        for q in (shifted.double(), rounded(shifted)):
            yield product(activations(problem), (q.t() - zero) * scale, rounded=True)


def seen(wrong: Form) -> Callable[[Problem, Config], str]:
    """A weight that comes out differently, with what it is made of."""

    def witness(problem: Problem, config: Config) -> str:
        right, other = RIGHT(problem), wrong(problem)
        differ = right != other
        if not bool(differ.any()):
            return ""
        n, k = (int(i) for i in differ.nonzero()[0])
        parts = [Form(combined=part)(problem, torch.tensor([k]))[n, 0] for part in
                 (lambda q, zero, scale: q, lambda q, zero, scale: zero, lambda q, zero, scale: scale)]  # fmt: skip
        g = k // problem.scalars["group_size"]
        return (f"w[{k}, {n}] is ({int(parts[0])} - {int(parts[1])}) * {float(parts[2]):.4g} = {float(right[n, k]):.4g} in group {g}, "
                f"your kernel used {float(other[n, k]):.4g}")  # fmt: skip

    return witness


def wrong(name: str, what: str, hint: str, *forms: Form) -> Mistake:
    return Mistake(name, what, hint, made(*forms), seen(forms[0]))


OPERANDS = Operands(read_as, weight, unscaled, rounded=True)
NIBBLES = "pack eight small numbers into one word by hand and unpack them: which k, and which n, does each nibble hold?"
ZEROS = "write down the sixteen nibbles that a zero point may be stored as, and the number that is subtracted for each"
GROUPS = "for k = 0, 31, 32, 127 and 128: which row of scales, and of zeros, belongs to it? The group size is an argument"
SCALES = "w = (q - (z + 1)) * s: what does the scale multiply, and how often?"
K_ORDER = "number the k of a tile of X, and those of the opened tile of W: does every k meet itself in the product?"

MISTAKES = (
    wrong("zero_not_plus_one", "the stored zero point subtracted as it is, without one more", ZEROS,
          Form(zero_meaning=lambda stored: stored)),
    wrong("zero_always_8", "8 subtracted everywhere, as if there were no zero points", ZEROS,
          Form(zero_meaning=lambda stored: torch.full_like(stored, 8))),
    wrong("no_zero", "nothing subtracted from the nibble", ZEROS, Form(zero_meaning=torch.zeros_like)),
    wrong("zero_not_scaled", "the zero point subtracted from the scaled nibble, unscaled", SCALES,
          Form(combined=lambda q, zero, scale: q * scale - zero)),
    wrong("signed", "the nibble read as two's complement, -8 to 7, instead of 0 to 15", NIBBLES,
          Form(meaning=lambda nibble: torch.where(nibble > 7, nibble - 16, nibble)),
          Form(meaning=lambda nibble: torch.where(nibble > 7, nibble - 16, nibble), zero_meaning=torch.zeros_like)),
    wrong("scaled_with_1024", "1024 + q scaled in fp16 before 1024 was subtracted, which leaves few bits for q",
          "how far apart are fp16 numbers near 1024 s, and how large is q s?", Form(combined=scaled_with_1024)),
    wrong("groups_of_128", "rows of scales and zeros taken for groups of 128, whatever group_size says", GROUPS, groups(groups_of(128))),
    wrong("one_group_for_all", "the scales and zeros of the first group used for all of K", GROUPS,
          groups(lambda problem, k: torch.zeros_like(k))),
    wrong("one_scale_for_all_groups", "the scales of the first group used for all of K", GROUPS,
          Form(scale_group=lambda problem, k: torch.zeros_like(k))),
    wrong("one_scale_for_all_groups", "the scales of the last group used for all of K", GROUPS,
          Form(scale_group=lambda problem, k: torch.full_like(k, last_group(problem)))),
    wrong("one_zero_for_all_groups", "the zeros of the first group used for all of K", GROUPS,
          Form(zero_group=lambda problem, k: torch.zeros_like(k))),
    wrong("group_of_word", "the number of the word divided by group_size, instead of that of the element", GROUPS, groups(of_word)),
    Mistake("group_of_tile", "the group in which a tile along K begins used for all of the tile", GROUPS,
            made_in_tiles(lambda tile: groups(of_first(tile)))),
    Mistake("group_of_tile", "the scale of the group in which a tile along K begins used for all of the tile", GROUPS,
            made_in_tiles(lambda tile: Form(scale_group=of_first(tile)))),
    Mistake("group_of_tile", "the zero point of the group in which a tile along K begins used for all of the tile", GROUPS,
            made_in_tiles(lambda tile: Form(zero_group=of_first(tile)))),
    Mistake("groups_counted_in_tiles", "the number of the tile along K taken for that of the group", GROUPS,
            made_in_tiles(lambda tile: groups(groups_of(tile)))),
    wrong("scales_contiguous", "scales read as a contiguous matrix, without stride_sg and stride_sn",
          "a view may have any strides: element (g, n) lies at g * stride_sg + n * stride_sn", Form(contiguous_scales=True)),
    wrong("zeros_contiguous", "zeros read as a contiguous matrix, without stride_zg and stride_zn",
          "a view may have any strides: word (g, j) lies at g * stride_zg + j * stride_zn",
          Form(zero_place=lambda problem, g, n: (g * (problem.scalars["N"] // 8) + n // 8, n % 8))),
    wrong("words_contiguous", "qweight read as a contiguous matrix, without stride_wk and stride_wn",
          "a view may have any strides: word (j, n) lies at j * stride_wk + n * stride_wn",
          Form(place=lambda problem, k, n: (k // 8 * problem.scalars["N"] + n, k % 8))),
    wrong("nibble_order_reversed", "the nibbles of a word taken from the highest down", NIBBLES, Form(place=packed_as(*BACKWARDS))),
    wrong("nibble_order_interleaved", "the nibbles of a word in the order of AWQ, 0 2 4 6 1 3 5 7", NIBBLES, Form(place=packed_as(*AWQ))),
    wrong("nibble_pairs_swapped", "the two nibbles of each byte exchanged", NIBBLES, Form(place=packed_as(*PAIRS))),
    wrong("packed_along_n", "eight neighbouring columns looked for in a word of qweight, instead of eight neighbouring k", NIBBLES,
          Form(place=lambda problem, k, n: (k * (problem.scalars["N"] // 8) + n // 8, n % 8))),
    wrong("lowest_nibble_only", "the lowest nibble of a word used for all eight of its elements", NIBBLES,
          Form(place=lambda problem, k, n: (words_at(problem, k // 8, n), torch.zeros_like(k)))),
    wrong("four_of_eight_nibbles", "the lower four nibbles of a word used twice", NIBBLES,
          Form(place=lambda problem, k, n: (words_at(problem, k // 8, n), k % 4))),
    *(Mistake("k_orders_differ", "X and the opened words multiplied in different orders of k within a tile", K_ORDER,
              in_tile_order(other)) for other in (by_nibbles, by_words)),
    Mistake("words_advanced_too_far", "words that move on by BLOCK_K rows of qweight a turn, instead of BLOCK_K / 8",
            "how many rows of qweight does a tile of K need?", in_tile_order(eight_tiles_on)),
    Mistake("no_nibble_mask", "words shifted, but with the higher nibbles still in them",
            "after the shift, which bits belong to the element?", unmasked),
    wrong("no_scale", "the product with q - (z + 1), without the scale", SCALES, Form(combined=lambda q, zero, scale: q - zero)),
    wrong("scale_twice", "the product multiplied by the scale twice", SCALES,
          Form(combined=lambda q, zero, scale: (q - zero) * scale * scale)),
    wrong("divided_by_scale", "the product divided by the scale", SCALES, Form(combined=lambda q, zero, scale: (q - zero) / scale)),
    *generic_mistakes(OPERANDS),
)  # fmt: skip
