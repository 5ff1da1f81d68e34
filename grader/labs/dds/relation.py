"""DDS's relation: the blocks of a block row, each with the columns of X that its column index names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from grader.labs.dds.lab import BLOCK, dense
from grader.labs.expected import Array, Held, Operand, Relation, Used, exact, fp16_activations, refilled
from grader.labs.inputs import normal
from grader.model import Problem

NOWHERE = 1 << 30
"""The row and k of what lies beyond the last block."""


def rows_of_blocks(problem: Problem) -> Array:
    """The block row of each block."""
    crow = exact(problem, "crow_indices_ptr").astype(np.int64)
    return np.repeat(np.arange(len(crow) - 1), np.diff(crow))


def place(problem: Problem, offsets: Array) -> tuple[Array, Array]:
    """n and k of the element of W at an offset into the values."""
    block, rest = np.divmod(offsets, BLOCK * BLOCK)
    rows, cols = rows_of_blocks(problem), exact(problem, "col_indices_ptr").astype(np.int64)
    inside = (block >= 0) & (block < len(cols))
    if not len(cols):
        return np.full(offsets.shape, NOWHERE), np.full(offsets.shape, NOWHERE)
    at = np.where(inside, block, 0)
    n, k = rows[at] * BLOCK + rest // BLOCK, cols[at] * BLOCK + rest % BLOCK
    return np.where(inside, n, NOWHERE), np.where(inside, k, NOWHERE)


def stored(problem: Problem, n: Array, k: Array, used: Used) -> Held:
    """The stored fp16, 0 where there is no block."""
    return Held(dense(problem).double().numpy()[n, k])


def needed(problem: Problem) -> Array:
    """bool [N, K]: the elements that lie in a block."""
    N, K = problem.scalars["N"], problem.scalars["K"]
    present = np.zeros((N // BLOCK, K // BLOCK), dtype=bool)
    present[rows_of_blocks(problem), exact(problem, "col_indices_ptr")] = True
    found: Array = present.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1)
    return found


def words(problem: Problem, offset: int) -> str:
    """An element of the values by its block, and its place in it."""
    block, rest = divmod(offset, BLOCK * BLOCK)
    return f"values[{block}, {rest // BLOCK}, {rest % BLOCK}]"


def block_of(problem: Problem, offsets: Array) -> Array:
    """The number of the block that an element of the values is in, which is where its column index stands."""
    return offsets // (BLOCK * BLOCK)


def inputs(problem: Problem, generator: torch.Generator) -> Problem:
    """Random values everywhere; the pattern of blocks stays."""
    M, K = problem.scalars["M"], problem.scalars["K"]
    x = normal(generator, M, K, device=torch.device("cpu")).to(torch.float16)
    shape = problem.tensors["values_ptr"].shape
    values = normal(generator, *shape, device=torch.device("cpu")).to(torch.float16)
    return refilled(problem, {"x_ptr": x, "values_ptr": values})


RELATION = Relation(
    left=replace(fp16_activations(), index="col_indices_ptr", index_of=block_of),
    right=Operand("values_ptr", "W", place, stored, words=words, height=BLOCK),
    scales=(),
    inputs=inputs,
    first=("rectangular", "long_row"),
    needed=needed,
)
