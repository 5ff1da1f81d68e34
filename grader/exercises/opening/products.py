"""The warm-ups that multiply: a sparse matrix times a vector, and a tiled product."""

from __future__ import annotations

from itertools import pairwise

import torch

from grader.exercises.opening.matrices import BLOCK, BLOCK_K, K_LONG, M_TALL, N_WIDE
from grader.labs.notebook_step import Inputs, Step, normal, sum_tolerance, tensor

CROW, COL = (0, 2, 2, 5, 6), (1, 3, 0, 2, 3, 1)
"""A weight of 4 x 4 blocks: block rows with 2, 0, 3 and 1 blocks."""


def _sparse_inputs(generator: torch.Generator) -> Inputs:
    return {
        "values_ptr": normal(generator, len(COL), BLOCK, BLOCK),
        "crow_indices_ptr": torch.tensor(CROW, dtype=torch.int32),
        "col_indices_ptr": torch.tensor(COL, dtype=torch.int32),
        "x_ptr": normal(generator, 4 * BLOCK),
    }


def _sparse(inputs: Inputs) -> torch.Tensor:
    """fp32 [4 * BLOCK]."""
    x, values = tensor(inputs, "x_ptr").double(), tensor(inputs, "values_ptr").double()
    y = torch.zeros(4, BLOCK, dtype=torch.float64)
    for row, (start, end) in enumerate(pairwise(CROW)):
        for b in range(start, end):
            y[row] += values[b] @ x[BLOCK * COL[b] : BLOCK * (COL[b] + 1)]
    return y.float().view(-1)


def _product_inputs(generator: torch.Generator) -> Inputs:
    x, w = (normal(generator, size, K_LONG).to(torch.float16) for size in (M_TALL, N_WIDE))
    return {"x_ptr": x, "w_ptr": w, "M": M_TALL, "N": N_WIDE, "K": K_LONG}


def _product(inputs: Inputs) -> torch.Tensor:
    """fp16 [M, N]."""
    return (tensor(inputs, "x_ptr").double() @ tensor(inputs, "w_ptr").double().t()).to(torch.float16)


STEPS = (
    Step(
        name="bsr",
        function="sparse_times_vector",
        result="y",
        right="Only blocks that are there were read, and the empty block row gave zeros without a special case.",
        hint="block row r owns the blocks from crow_indices[r] up to, but not including, crow_indices[r + 1]; block b meets the "
        "elements of x from BLOCK * col_indices[b] on; tl.sum(block * x[None, :], axis=1)",
        harness=f"""
@triton.jit
def harness(values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, out_ptr):
    sparse_times_vector(values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, out_ptr, {BLOCK})
""",
        grid=(4, 1, 1),
        inputs=_sparse_inputs,
        expected=_sparse,
        tolerance=lambda inputs: sum_tolerance(_sparse(inputs)),
    ),
    Step(
        name="product",
        function="multiply",
        result="y",
        right="A tiled product with tails on all sides. The labs change what happens between load and dot.",
        hint="rows and columns of the tile from pid; in the loop x is load_tile(x_ptr, rows, depth, M, K, K, 1), and w, read as [K, N], "
        "load_tile(w_ptr, depth, columns, K, N, 1, K); acc is fp32, y fp16; the store has a mask",
        harness=f"""
@triton.jit
def harness(x_ptr, w_ptr, M, N, K, out_ptr):
    multiply(x_ptr, w_ptr, out_ptr, M, N, K, {BLOCK}, {BLOCK}, {BLOCK_K})
""",
        grid=(6, 1, 1),
        inputs=_product_inputs,
        expected=_product,
        tolerance=lambda inputs: _product(inputs).double().abs() * 2.0**-10 + 1e-4,
    ),
)
