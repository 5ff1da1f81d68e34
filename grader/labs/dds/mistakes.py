"""DDS: the walk over BSR blocks, as it goes wrong. Then what goes wrong in any tiled product."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from grader.labs.address_mistakes import store_mistakes, stride_mistakes
from grader.labs.bound import FP16_UNDERFLOW, U_FP16, U_FP32
from grader.labs.imitation import Imitation, Mistake, reread
from grader.labs.tiling_mistakes import (
    Operands,
    Reading,
    half_sum,
    last_resorts,
    sizes,
)
from grader.model import Config, Problem

BLOCK = 32
SQUARE = BLOCK * BLOCK
NOWHERE = 1 << 40

Walk = Callable[["Pattern", int], list[tuple[int, int]]]
"""For a block row: the flat offset into values and the first column of X, of each block that is multiplied."""


class Pattern:
    """crow and col as lists; what lies beyond them is far outside X and values."""

    def __init__(self, problem: Problem) -> None:
        self.crow: list[int] = problem.tensors["crow_indices_ptr"].tolist()
        self.cols: list[int] = problem.tensors["col_indices_ptr"].tolist()

    @property
    def rows(self) -> int:
        return len(self.crow) - 1

    def column(self, i: int) -> int:
        """The block column of block i."""
        return self.cols[i] if 0 <= i < len(self.cols) else NOWHERE

    def blocks(self, row: int) -> range:
        """Numbers of the blocks of a block row."""
        return range(self.crow[row], self.crow[row + 1])


def between(pattern: Pattern, numbers: range) -> list[tuple[int, int]]:
    return [(i * SQUARE, pattern.column(i) * BLOCK) for i in numbers]


def right_walk(pattern: Pattern, row: int) -> list[tuple[int, int]]:
    return between(pattern, pattern.blocks(row))


def parts(problem: Problem, walk: Walk, transposed: bool = True) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(block row, product float64 [M, 32], sum of magnitudes) for each multiplied block, block rows in turn."""
    M, _, _ = sizes(problem)
    pattern, s = Pattern(problem), problem.scalars
    places = [(row, values, column) for row in range(pattern.rows) for values, column in walk(pattern, row)]
    if not places:
        return
    rows, values, columns = zip(*places, strict=True)
    b = torch.arange(BLOCK)
    blocks = torch.tensor(values)[:, None, None] + b[:, None] * BLOCK + b[None, :]
    w = reread(problem.tensors["values_ptr"], blocks).double()
    w = w.transpose(1, 2) if transposed else w
    k = torch.tensor(columns)[:, None, None] + b
    x = reread(problem.tensors["x_ptr"], torch.arange(M)[:, None] * s["stride_xm"] + k * s["stride_xk"]).double()
    yield from zip(rows, x @ w, x.abs() @ w.abs(), strict=True)


def walked(*walks: Walk, transposed: bool = True) -> Callable[[Problem, Config], Iterator[Imitation]]:
    """The product over other blocks than the right ones."""

    def imitate(problem: Problem, config: Config) -> Iterator[Imitation]:
        M, N, K = sizes(problem)
        for walk in walks:
            y = torch.zeros(M, N, dtype=torch.float64)
            size = torch.zeros_like(y)
            for row, part, magnitude in parts(problem, walk, transposed):
                here = slice(row * BLOCK, (row + 1) * BLOCK)
                y[:, here] += part
                size[:, here] += magnitude
            bound = U_FP16 * y.abs() + 2 * K * U_FP32 * size + FP16_UNDERFLOW
            yield Imitation(y, bound.nan_to_num(0.0))

    return imitate


def empty_unwritten(problem: Problem, config: Config) -> Iterator[Imitation]:
    right = OPERANDS.right(problem)
    empty = (problem.tensors["crow_indices_ptr"].diff() == 0).repeat_interleave(BLOCK)
    if bool(empty.any()):
        for y in (right.y, next(iter(walked(right_walk, transposed=False)(problem, config))).y):
            yield Imitation(torch.where(empty, torch.nan, y), right.bound)


def half_accumulator(problem: Problem, config: Config) -> Iterator[Imitation]:
    M, N, _ = sizes(problem)
    y, bound = torch.zeros(M, N, dtype=torch.float64), torch.full((M, N), FP16_UNDERFLOW, dtype=torch.float64)
    of_row: dict[int, list[torch.Tensor]] = {}
    for row, part, _ in parts(problem, right_walk):
        of_row.setdefault(row, []).append(part)
    for row, products in of_row.items():
        sum_of_row = half_sum(products, torch.ones(()))
        y[:, row * BLOCK : (row + 1) * BLOCK] = sum_of_row.y
        bound[:, row * BLOCK : (row + 1) * BLOCK] = sum_of_row.bound
    yield Imitation(y, bound)


def weight(problem: Problem, k: torch.Tensor) -> torch.Tensor:
    _, N, K = sizes(problem)
    w = torch.zeros(N // BLOCK, K // BLOCK, BLOCK, BLOCK, dtype=torch.float64)
    pattern = Pattern(problem)
    for row in range(pattern.rows):
        for i in pattern.blocks(row):
            w[row, pattern.column(i)] = problem.tensors["values_ptr"][i].double()
    return w.transpose(1, 2).reshape(N, K)[:, k]


def read_as(problem: Problem, x: torch.Tensor) -> list[Reading]:
    return [(x, None)]


def present(problem: Problem) -> torch.Tensor:
    """bool [N, K]: the elements of W that lie in stored blocks."""
    _, N, K = sizes(problem)
    mask = torch.zeros(N, K, dtype=torch.bool)
    pattern = Pattern(problem)
    for row in range(pattern.rows):
        for i in pattern.blocks(row):
            column = pattern.column(i) * BLOCK
            mask[row * BLOCK : (row + 1) * BLOCK, column : column + BLOCK] = True
    return mask


def unscaled(problem: Problem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return problem.tensors["x_ptr"].double(), weight(problem, torch.arange(problem.scalars["K"])), torch.ones(1, 1)


def seen(walk: Walk) -> Callable[[Problem, Config], str]:
    """The first block row for which other blocks are multiplied."""

    def witness(problem: Problem, config: Config) -> str:
        pattern = Pattern(problem)
        for row in range(pattern.rows):
            right, other = right_walk(pattern, row), walk(pattern, row)
            if right != other:
                return f"block row {row}: {_blocks(pattern, right)}; your kernel used {_blocks(pattern, other)}"
        return ""

    return witness


def _blocks(pattern: Pattern, places: list[tuple[int, int]]) -> str:
    if not places:
        return "no block"

    def name(place: tuple[int, int]) -> str:
        values, column = place
        start = f"{column} of X" if column < NOWHERE else "beyond X"
        offset = f"values[{values // SQUARE}]" if values % SQUARE == 0 else f"values at offset {values}"
        return f"{offset} with columns from {start}"

    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return name(places[0]) + more


def walk_mistake(name: str, what: str, hint: str, *walks: Walk) -> Mistake:
    """A mistake in which blocks are multiplied with which columns of X."""
    return Mistake(name, what, hint, walked(*walks), seen(walks[0]))


def _at_most(count: int) -> Walk:
    return lambda p, row: between(p, p.blocks(row)[:count])


OPERANDS = Operands(read_as, weight, unscaled, multiplied=present)
BOUNDS = "draw crow_indices of a small matrix: which two of its entries enclose the blocks of block row r?"
COLUMNS = "a block column is a number of blocks; which columns of X does it stand for?"
NUMBER = (
    "two things number the blocks, their place among all blocks and their block column: which one finds the values?"
)

MISTAKES = (
    walk_mistake("crow_without_leading_zero", "block rows that begin one entry of crow_indices too early", BOUNDS,
                 lambda p, r: between(p, range(p.crow[r - 1] if r else 0, p.crow[r])),
                 lambda p, r: between(p, range(p.crow[r - 1] if r else 0, p.crow[r + 1]))),
    walk_mistake("crow_one_ahead", "block rows that begin one entry of crow_indices too late", BOUNDS,
                 lambda p, r: between(p, range(p.crow[r + 1], p.crow[r + 2] if r + 2 < len(p.crow) else 0))),
    walk_mistake("row_start_ignored", "block rows that begin with the first block of all", BOUNDS,
                 lambda p, r: between(p, range(p.crow[r + 1]))),
    walk_mistake("block_count_as_end", "block rows that end at their number of blocks", BOUNDS,
                 lambda p, r: between(p, range(p.crow[r], len(p.blocks(r)))),
                 lambda p, r: between(p, range(len(p.blocks(r))))),
    walk_mistake("last_block_dropped", "block rows without their last block", BOUNDS,
                 lambda p, r: between(p, p.blocks(r)[:-1])),
    walk_mistake("first_block_dropped", "block rows without their first block", BOUNDS,
                 lambda p, r: between(p, p.blocks(r)[1:])),
    walk_mistake("accumulator_overwritten", "the product of each block row's last block alone",
                 "each turn of the loop must keep what the turns before it summed up",
                 lambda p, r: between(p, p.blocks(r)[-1:])),
    walk_mistake("at_most_n_blocks", "block rows cut off after a fixed number of blocks",
                 "how many blocks may a block row hold?", *(_at_most(count) for count in (4, 8, 2, 1, 16, 3, 5, 6))),
    walk_mistake("col_as_element", "the block column used as the index of an element of X", COLUMNS,
                 lambda p, r: [(i * SQUARE, p.column(i)) for i in p.blocks(r)]),
    walk_mistake("x_by_block_row", "the columns of X taken from the block row of W", COLUMNS,
                 lambda p, r: [(i * SQUARE, r * BLOCK) for i in p.blocks(r)]),
    walk_mistake("x_by_block_number", "the columns of X taken from the number of the block", COLUMNS,
                 lambda p, r: [(i * SQUARE, i * BLOCK) for i in p.blocks(r)],
                 lambda p, r: [(i * SQUARE, (i - p.crow[r]) * BLOCK) for i in p.blocks(r)]),
    walk_mistake("col_from_row_start", "column indices counted from the start of each block row", NUMBER,
                 lambda p, r: [(i * SQUARE, p.column(i - p.crow[r]) * BLOCK) for i in p.blocks(r)]),
    walk_mistake("values_by_column", "values indexed by block column", NUMBER,
                 lambda p, r: [(p.column(i) * SQUARE, p.column(i) * BLOCK) for i in p.blocks(r)]),
    walk_mistake("values_from_row_start", "values counted from the start of each block row", NUMBER,
                 lambda p, r: [((i - p.crow[r]) * SQUARE, p.column(i) * BLOCK) for i in p.blocks(r)]),
    walk_mistake("values_block_stride", "values read BLOCK elements apart from block to block",
                 "how many elements does one block of values hold?",
                 lambda p, r: [(i * BLOCK, p.column(i) * BLOCK) for i in p.blocks(r)]),
    Mistake("block_not_transposed", "the stored blocks in place of their transposes",
            "a block is stored [n, k]; which shape does the right operand of tl.dot have?",
            walked(right_walk, transposed=False)),
    Mistake("empty_row_unwritten", "a Y in which empty block rows were never written",
            "which program writes the part of Y that belongs to an empty block row?", empty_unwritten),
    *stride_mistakes(OPERANDS),
    *store_mistakes(OPERANDS, lambda config: (BLOCK,)),
    Mistake("fp16_accumulator", "a sum kept in fp16, which loses small terms and overflows at 65504",
            "in which type does the accumulator hold the sum while the loop runs?", half_accumulator),
    *last_resorts(OPERANDS),
)  # fmt: skip
