"""W8A16: what a byte means, where it lies and what it is scaled by, as they go wrong. Then what goes wrong in any tiled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from grader.labs.generic_mistakes import generic_mistakes
from grader.labs.imitation import Imitation, Mistake, grid_of, product, reread, tiles
from grader.labs.tiling_mistakes import Operands, Reading, half_sum, sizes
from grader.model import Config, Problem

Meaning = Callable[[torch.Tensor], torch.Tensor]
"""From the stored integers, float64, to the numbers that a kernel multiplies with."""


def activations(problem: Problem) -> torch.Tensor:
    return problem.tensors["x_ptr"].double()


def scales(problem: Problem) -> torch.Tensor:
    return problem.tensors["scales_ptr"].double()


def integers(problem: Problem) -> torch.Tensor:
    """The stored weight, float64 [N, K] of int8 values."""
    return problem.tensors["qweight_ptr"].t().double()


def read_as(problem: Problem, x: torch.Tensor) -> list[Reading]:
    return [(x, None)]


def weight(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    _, N, _ = sizes(problem)
    n = torch.arange(N)[:, None]
    index = k[None, :] * problem.scalars["stride_wk"] + n * problem.scalars["stride_wn"]
    return reread(problem.tensors["qweight_ptr"], index).double() * scales(problem)[:, None]


def unscaled(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return activations(problem), integers(problem), scales(problem)[None, :]


def meant(*meanings: Meaning) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """The product with other numbers for the same bytes."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        for meaning in meanings:
            yield product(activations(problem), meaning(integers(problem)) * scales(problem)[:, None], rounded=True)

    return imitate


def seen(meaning: Meaning) -> Callable[[Problem, Config], str]:
    """A byte that is read differently."""

    def witness(problem: Problem, config: Config) -> str:
        right = integers(problem)
        other = meaning(right)
        differ = right != other
        if not bool(differ.any()):
            return ""
        n, k = (int(i) for i in differ.nonzero()[0])
        return f"W[{n}, {k}] is stored as {int(right[n, k])}, your kernel used {int(other[n, k])}"

    return witness


def weight_at(
    place: Callable[[Problem, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Element (k, n) of the weight read at the flat offset place(problem, k [K, 1], n [1, N])."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        _, N, K = sizes(problem)
        k, n = grid_of(K, N)
        index = place(problem, k, n)
        if torch.equal(index, k * problem.scalars["stride_wk"] + n * problem.scalars["stride_wn"]):
            return
        w = reread(problem.tensors["qweight_ptr"], index).double().t()
        yield product(activations(problem), w * scales(problem)[:, None], rounded=True)

    return imitate


def permuted(*order: int) -> Callable[[Problem, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Element i of each four along K taken from place order[i]."""
    places = torch.tensor(order)
    return lambda p, k, n: k - k % 4 + places[k % 4] + n * p.scalars["stride_wn"]


def scaled_by(
    scale: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]],
) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """Right integers, other scales. scale(s, m, n, BLOCK_N): factors of X's rows [M] and of W's rows [N]."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, _ = sizes(problem)
        for tile in tiles(config, "N"):
            left, right = scale(scales(problem), torch.arange(M), torch.arange(N), tile)
            yield product(activations(problem) * left[:, None], integers(problem) * right[:, None], rounded=True)

    return imitate


def sum_in_half(problem: Problem, config: Config) -> Iterator[Imitation]:
    x, w, scale = unscaled(problem)
    yield half_sum([x @ w.t()], scale)


def converted_x(problem: Problem, config: Config) -> Iterator[Imitation]:
    """X brought to int8 for the integer tensor cores: its fraction is lost, and what does not fit wraps or saturates."""
    x = activations(problem)
    for whole in (torch.trunc(x), torch.round(x)):
        for q in ((whole + 128) % 256 - 128, whole.clamp(-128, 127)):
            yield product(q, integers(problem) * scales(problem)[:, None])


def unsigned(q: torch.Tensor) -> torch.Tensor:
    return torch.where(q < 0, q + 256, q)


def offset_binary(q: torch.Tensor) -> torch.Tensor:
    return unsigned(q) - 128


def sign_and_magnitude(q: torch.Tensor) -> torch.Tensor:
    return torch.where(q < 0, -(q + 128), q)


def byte(name: str, what: str, meaning: Meaning) -> Mistake:
    """A mistake in what a byte means."""
    return Mistake(name, what, BYTES, meant(meaning), seen(meaning))


def order(name: str, what: str, *places: int) -> Mistake:
    """A mistake in which byte of a word an element is."""
    return Mistake(name, what, WORDS, weight_at(permuted(*places)))


OPERANDS = Operands(read_as, weight, unscaled, rounded=True)
BYTES = "write down the bytes 0x00, 0x7F, 0x80 and 0xFF, and the numbers that int8 takes them for"
WORDS = "the bytes of a word lie in memory from the lowest up: which k is each of them, and which k of X does it meet?"
VIEW = "qweight is a transposed view; which arguments say how far apart its elements are?"
CHANNELS = "which index of Y do the scales belong to, and how often does a scale belong into the result?"

MISTAKES = (
    byte("unsigned", "int8 read as unsigned", unsigned),
    byte("offset_binary", "128 subtracted from the byte, as if the zero point were 128", offset_binary),
    byte("128_too_large", "weights that are 128 too large: 0 to 255 instead of -128 to 127", lambda q: q + 128),
    byte("128_too_small", "128 subtracted from numbers that had their sign already", lambda q: q - 128),
    byte("sign_and_magnitude", "the highest bit taken for a sign and the rest for the magnitude", sign_and_magnitude),
    byte("255_subtracted", "255 subtracted from the bytes of negative numbers, instead of 256",
         lambda q: torch.where(q < 0, q + 1, q)),
    byte("minus_128_positive", "the byte of -128 read as 128", lambda q: torch.where(q == -128, 128.0, q)),
    byte("clamp_to_minus_127", "the weight clamped to [-127, 127], though -128 is among its values",
         lambda q: q.clamp(-127, 127)),
    order("bytes_reversed", "the bytes of a word taken from the highest down", 3, 2, 1, 0),
    order("byte_pairs_swapped", "the two bytes of each 16 bits exchanged", 1, 0, 3, 2),
    order("bytes_interleaved", "the bytes of a word in the order 0 2 1 3, and X in that of K", 0, 2, 1, 3),
    order("lowest_byte_only", "the lowest byte of a word used for all four of its elements", 0, 0, 0, 0),
    Mistake("x_converted", "X converted to int8, so that its fraction is lost",
            "which of the two operands of the product changes its type?", converted_x),
    Mistake("weight_row_major", "the weight read as a contiguous [K, N] matrix", VIEW,
            weight_at(lambda p, k, n: k * p.scalars["N"] + n)),
    Mistake("weight_strides_swapped", "the weight read with its two strides exchanged", VIEW,
            weight_at(lambda p, k, n: k * p.scalars["stride_wn"] + n * p.scalars["stride_wk"])),
    Mistake("ignores_stride_wn", "the columns of the weight taken to be K elements apart", VIEW,
            weight_at(lambda p, k, n: k + n * p.scalars["K"])),
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
    Mistake("fp16_before_scaling", "the sum brought to fp16, which ends at 65504, before it is scaled",
            "in which type is the sum when the scale is applied?", sum_in_half),
    *generic_mistakes(OPERANDS),
)  # fmt: skip
