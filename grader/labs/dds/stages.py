"""DDS, stage by stage: the blocks of a block row, each with the columns of X that its column index names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from grader.labs.divergence import CONVERT
from grader.labs.inputs import normal
from grader.labs.stages import (
    Array,
    Blocks,
    Judgement,
    Operand,
    Rule,
    RuleMatches,
    Stages,
    Values,
    by_strides,
    exact,
    refilled,
)
from grader.model import Problem

BLOCK = 32
TOKEN_TILES = (16, 32, 64, 128, 256)


def _rows_of_blocks(problem: Problem) -> Array:
    crow = exact(problem, "crow_indices_ptr").astype(np.int64)
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
    """n and k of the element of W at an offset into the values; past the last block, numbers past N and K."""
    block, rest = np.divmod(offsets, BLOCK * BLOCK)
    rows, cols = _rows_of_blocks(problem), exact(problem, "col_indices_ptr").astype(np.int64)
    inside = (block >= 0) & (block < len(cols))
    if not len(cols):
        return np.full(offsets.shape, 1 << 30), np.full(offsets.shape, 1 << 30)
    at = np.where(inside, block, 0)
    n, k = rows[at] * BLOCK + rest // BLOCK, cols[at] * BLOCK + rest % BLOCK
    return np.where(inside, n, 1 << 30), np.where(inside, k, 1 << 30)


def needed(problem: Problem) -> Array:
    """bool [N, K]: the elements that lie in a block."""
    N, K = problem.scalars["N"], problem.scalars["K"]
    present = np.zeros((N // BLOCK, K // BLOCK), dtype=bool)
    present[_rows_of_blocks(problem), exact(problem, "col_indices_ptr")] = True
    found: Array = present.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)
    return found


def judge_left(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """X as it was loaded."""
    return _as_loaded(exact(problem, "x_ptr").astype(np.float64)[values.row, values.k], "X", "left", values)


def judge_right(problem: Problem, values: Values) -> tuple[Sequence[Judgement], Array]:
    """The stored values."""
    block = _numbers(problem)[values.row // BLOCK, values.k // BLOCK]
    stored = exact(problem, "values_ptr").astype(np.float64)[block, values.row % BLOCK, values.k % BLOCK]
    return _as_loaded(stored, "W", "right", values)


def _as_loaded(stored: Array, letter: str, side: str, values: Values) -> tuple[Sequence[Judgement], Array]:
    wrong = np.abs(values.value - stored) > 1e-3 * np.abs(stored)
    if not wrong.any():
        return (), np.ones_like(stored)

    def describe(at: tuple[int, ...]) -> tuple[str, str]:
        return (f"the {side} operand holds {values.value[at]:.5g} for {letter}[{values.row[at]}, {values.k[at]}]",
                f"{stored[at]:.5g}")  # fmt: skip

    return (Judgement(f"{letter.lower()}_converted", f"{letter} is multiplied as it is", wrong, describe, stored, CONVERT),
            ), np.ones_like(stored)  # fmt: skip


def explain_block(problem: Problem, blocks: Blocks) -> RuleMatches:
    """The rules about block rows and columns that pairs with others than their own follow, most telling first."""
    cols = exact(problem, "col_indices_ptr").astype(np.int64)
    crow = exact(problem, "crow_indices_ptr").astype(np.int64)
    block, rest = np.divmod(blocks.offset, BLOCK * BLOCK)
    if not len(cols) or not ((block >= 0) & (block < len(cols))).all():
        return RuleMatches(frozenset(), ())
    row, x_block = blocks.n // BLOCK, blocks.left_k // BLOCK
    r, c = rest // BLOCK, rest % BLOCK
    turned = bool((c == blocks.n % BLOCK).all()) and not bool((r == blocks.n % BLOCK).all())
    inside = r if turned else c
    own, start = _rows_of_blocks(problem)[block], crow[row]
    number = _numbers(problem)[row, np.clip(x_block, 0, problem.scalars["K"] // BLOCK - 1)]
    from_start = np.clip(block - start, 0, len(cols) - 1)
    in_row, meets = own == row, bool((blocks.left_k == cols[block] * BLOCK + inside).all())
    mixed = not in_row.all()
    rules = (
        (turned, "inside", "block_not_transposed", "the stored block is multiplied, not its transpose: it lies as [n, k]"),
        (meets and (own == row - 1).all(), "row", "crow_without_leading_zero",
         "the bounds of the block row before are used: crow_indices begins with a zero"),
        (meets and (own == row + 1).all(), "row", "crow_one_ahead",
         "the bounds of the next block row are used: row r begins at crow_indices[r]"),
        (not mixed and not meets and (blocks.left_k == cols[block] + inside).all(), "columns", "col_as_element",
         "the block column is taken for the index of an element: it counts blocks of BLOCK columns"),
        (not mixed and not meets and (blocks.left_k == row * BLOCK + inside).all(), "columns", "x_by_block_row",
         "the columns of X are taken from the block row of W, not from the block's column index"),
        (not mixed and not meets and (blocks.left_k == cols[from_start] * BLOCK + inside).all(), "columns", "col_from_row_start",
         "column indices are counted from the start of the block row, so that every row gets those of the first"),
        (not mixed and not meets and (blocks.left_k == from_start * BLOCK + inside).all(), "columns", "x_by_position",
         "the columns of X follow the number of the block in its row, not its column index"),
        (not turned and (block == x_block).all(), "columns", "values_by_column",
         "the values are indexed by block column instead of by the number of the block"),
        (mixed and ((number >= 0) & (block == number - start)).all(), "columns", "values_from_row_start",
         "the values are counted from the start of the block row, so that every row gets those of the first"),
        (((number >= 0) & (blocks.offset - number * BLOCK >= 0) & (blocks.offset - number * BLOCK < BLOCK * BLOCK)).all()
         and (number > 0).any(), "columns", "values_block_stride",
         "blocks of the values are taken to be BLOCK elements apart, not BLOCK * BLOCK"),
    )  # fmt: skip
    looked_up = {"row": "crow_indices_ptr", "columns": ""}
    found = [Rule(aspect, name, reason, looked_up.get(aspect, "")) for holds, aspect, name, reason in rules if holds]
    if meets and mixed:  # an empty block row shows nothing but foreign blocks
        found += [
            Rule("row", name, reason, looked_up["row"], telling=bool((own == row).any()))
            for holds, name, reason in (
                ((own <= row).all() and block.min() == 0, "row_start_ignored",
                 "the loop begins with the first block of all, not with the first of its block row"),
                ((own >= row).all(), "row_end_ignored", "the loop does not end with the last block of its block row"),
            ) if holds
        ]  # fmt: skip
    if not meets and (block == row).all():
        found.append(Rule("columns", "values_by_block_row", "the values are indexed by block row instead of by the number of the block",
                          telling=not in_row.all()))  # fmt: skip
    if meets and mixed:
        found += [
            Rule("row", "block_row_of_tokens", "the block row follows the tile of tokens, not the tile of outputs",
                 looked_up["row"], tile, bool(own.max() > 0))
            for tile in TOKEN_TILES if (own == blocks.m // tile).all()
        ]  # fmt: skip
    asked = {"inside": bool((r != blocks.n % BLOCK).any()), "columns": mixed or not meets, "row": bool(mixed)}
    return RuleMatches(frozenset(aspect for aspect, wrong in asked.items() if wrong), tuple(found))


def _numbers(problem: Problem) -> Array:
    """int [N/32, K/32]: the number of each block, -1 where there is none."""
    found = np.full((problem.scalars["N"] // BLOCK, problem.scalars["K"] // BLOCK), -1, dtype=np.int64)
    cols = exact(problem, "col_indices_ptr").astype(np.int64)
    found[_rows_of_blocks(problem), cols] = np.arange(len(cols))
    return found


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random values everywhere; the pattern of blocks stays."""
    M, K = problem.scalars["M"], problem.scalars["K"]
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    shape = problem.tensors["values_ptr"].shape
    values = normal(generator, *shape, device=torch.device("cpu")).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "values_ptr": values})


STAGES = Stages(
    left=Operand("x_ptr", "X", by_strides("x_ptr", "stride_xm", "stride_xk"), ("stride_xm", "stride_xk")),
    right=Operand("values_ptr", "W", place),
    judge_left=judge_left,
    judge_right=judge_right,
    inputs=inputs,
    needed=needed,
    explain_block=explain_block,
)
