"""The warm-ups about where a tile's elements lie: add, a mask, strides, two masks, a transpose."""

from __future__ import annotations

import torch

from grader.exercises.opening.matrices import BLOCK, COLUMNS, M_TALL, ROWS, N, strided_matrix, with_strides
from grader.labs.notebook_step import Inputs, Step, normal, padded, stored, tensor

TILE = f"fp16 [{ROWS}, {COLUMNS}]"


def _vectors(generator: torch.Generator, size: int) -> Inputs:
    return {name: normal(generator, size) for name in ("x_ptr", "y_ptr")}


def _masked_inputs(generator: torch.Generator) -> Inputs:
    x = strided_matrix(generator, ROWS - 3, COLUMNS - 5)
    return {**with_strides(x), "row_count": ROWS - 3, "column_count": COLUMNS - 5}


def _transpose_inputs(generator: torch.Generator) -> Inputs:
    return {**with_strides(strided_matrix(generator, M_TALL, N - BLOCK)), "M": M_TALL, "N": N - BLOCK}


STEPS = (
    Step(
        name="add",
        function="add",
        result="out",
        right="Three programs, each with sixteen elements of its own. That is all there is to a grid.",
        hint="a program's elements are tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); load both, add, store",
        harness=f"""
@triton.jit
def harness(x_ptr, y_ptr, out_ptr):
    add(x_ptr, y_ptr, out_ptr, {BLOCK})
""",
        grid=(3, 1, 1),
        inputs=lambda generator: _vectors(generator, 3 * BLOCK),
        expected=lambda inputs: tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr"),
    ),
    Step(
        name="mask",
        function="add_masked",
        result="out",
        right="The last program has lanes beyond the end, and neither reads nor writes there.",
        hint="at < n is a mask; give it to both loads and to the store",
        harness=f"""
@triton.jit
def harness(x_ptr, y_ptr, n, out_ptr):
    add_masked(x_ptr, y_ptr, out_ptr, n, {BLOCK})
""",
        grid=(3, 1, 1),
        inputs=lambda generator: {**_vectors(generator, N), "n": N},
        expected=lambda inputs: tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr"),
    ),
    Step(
        name="tile",
        function="load_strided",
        result="tile",
        returns=TILE,
        right="Rows go down, columns go across, and each axis has its own stride.",
        hint="element (i, j) lies at ptr + rows[i] * stride_row + columns[j] * stride_column; "
        "`[:, None]` and `[None, :]` spread the two",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, out_ptr):
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    tile = load_strided(x_ptr, rows, columns, stride_row, stride_column)
{stored("tile", TILE)}""",
        inputs=lambda generator: with_strides(strided_matrix(generator, ROWS, COLUMNS)),
        expected=lambda inputs: tensor(inputs, "x_ptr").contiguous(),
    ),
    Step(
        name="masks",
        function="load_tile",
        result="tile",
        returns=TILE,
        right="Two axes, two ends, one mask. You will use this function in every lab.",
        hint="mask=(rows < row_count)[:, None] & (columns < column_count)[None, :], and other=0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, row_count, column_count, out_ptr):
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    tile = load_tile(x_ptr, rows, columns, row_count, column_count, stride_row, stride_column)
{stored("tile", TILE)}""",
        inputs=_masked_inputs,
        expected=lambda inputs: padded(tensor(inputs, "x_ptr"), ROWS, COLUMNS),
    ),
    Step(
        name="transpose",
        function="transpose",
        result="y",
        right="Nothing was moved between registers: a transpose is the same tile, stored with other strides.",
        hint="element (i, j) of the tile goes to y_ptr + columns[j] * M + rows[i], since row n of y has M elements; "
        "the mask of the store is that of the load",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, N, out_ptr):
    transpose(x_ptr, out_ptr, M, N, stride_row, stride_column, {BLOCK})
""",
        grid=(2, 2, 1),
        inputs=_transpose_inputs,
        expected=lambda inputs: tensor(inputs, "x_ptr").t().contiguous(),
    ),
)  # fmt: skip
