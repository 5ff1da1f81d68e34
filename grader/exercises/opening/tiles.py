"""The warm-ups about where a tile's elements lie: add, a mask, strides, two masks, a transpose."""

from __future__ import annotations

import torch

from grader.exercises.opening.matrices import BLOCK, COLUMNS, M_TALL, ROWS, N, strided_matrix, with_strides
from grader.labs.notebook_step import Inputs, Slip, Step, integer, stored, tensor

TILE = f"fp16 [{ROWS}, {COLUMNS}]"


def _vectors(generator: torch.Generator, size: int) -> Inputs:
    return {name: torch.randn(size, generator=generator) for name in ("x_ptr", "y_ptr")}


def _first(inputs: Inputs, count: int) -> torch.Tensor:
    """The first elements of the sum; NaN for the rest, which is never written."""
    sums = tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr")
    sums[count:] = float("nan")
    return sums


def _from_the_second(inputs: Inputs) -> torch.Tensor:
    sums = tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr")
    sums[0] = float("nan")
    return sums


def _strides_exchanged(inputs: Inputs) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]: x read by the wrong stride along each axis; NaN where that leads out of it, zeros outside the mask."""
    x = tensor(inputs, "x_ptr")
    rows, columns = x.shape
    tile = torch.zeros(ROWS, COLUMNS, dtype=torch.float16)
    tile[:rows, :columns] = float("nan")
    tile[:rows, :rows] = x[:, :rows].t()
    return tile


def _masked_inputs(generator: torch.Generator) -> Inputs:
    x = strided_matrix(generator, ROWS - 3, COLUMNS - 5)
    return {**with_strides(x), "row_count": ROWS - 3, "column_count": COLUMNS - 5}


def _padded(inputs: Inputs, beyond: int = 0) -> torch.Tensor:
    x = tensor(inputs, "x_ptr")
    padded = torch.full((ROWS, COLUMNS), beyond, dtype=torch.float16)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


def _cut_by_offsets(inputs: Inputs) -> torch.Tensor:
    """x where the offset along each axis, not the number, is below the count."""
    padded = _padded(inputs)
    for axis, (stride, count) in enumerate((("stride_row", "row_count"), ("stride_column", "column_count"))):
        padded.narrow(axis, 0, padded.shape[axis]).index_fill_(
            axis, (torch.arange(padded.shape[axis]) * integer(inputs, stride) >= integer(inputs, count)).nonzero()[:, 0], 0
        )
    return padded


def _transpose_inputs(generator: torch.Generator) -> Inputs:
    return {**with_strides(strided_matrix(generator, M_TALL, N - BLOCK)), "M": M_TALL, "N": N - BLOCK}


def _turned_outside(inputs: Inputs) -> torch.Tensor:
    """fp16 [N, M]: each tile of x at the place of its transpose, unturned; zeros of its padding where it is wider than high."""
    x, side = tensor(inputs, "x_ptr"), 2 * BLOCK
    wide, y = torch.zeros(side, side, dtype=torch.float16), torch.zeros(side, side, dtype=torch.float16)
    wide[: x.shape[0], : x.shape[1]] = x
    for i in range(0, side, BLOCK):
        for j in range(0, side, BLOCK):
            y[j : j + BLOCK, i : i + BLOCK] = wide[i : i + BLOCK, j : j + BLOCK]
    return y[: x.shape[1], : x.shape[0]]


def _read_across(inputs: Inputs) -> torch.Tensor:
    """fp16 [N, M]: each tile is the transpose of the one of x at the place that it has in y."""
    x, side = tensor(inputs, "x_ptr"), 2 * BLOCK
    wide, y = torch.zeros(side, side, dtype=torch.float16), torch.zeros(side, side, dtype=torch.float16)
    wide[: x.shape[0], : x.shape[1]] = x
    for i in range(0, side, BLOCK):
        for j in range(0, side, BLOCK):
            y[j : j + BLOCK, i : i + BLOCK] = wide[j : j + BLOCK, i : i + BLOCK].t()
    return y[: x.shape[1], : x.shape[0]]


def _first_tile(inputs: Inputs) -> torch.Tensor:
    y = torch.full_like(tensor(inputs, "x_ptr").t().contiguous(), float("nan"))
    y[:BLOCK, :BLOCK] = tensor(inputs, "x_ptr")[:BLOCK, :BLOCK].t()
    return y


STEPS = (
    Step(
        name="add",
        function="add",
        result="out",
        right="Three programs, each with sixteen elements of its own. That is all there is to a grid.",
        look="a program's elements are tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); load both, add, store",
        harness=f"""
@triton.jit
def harness(x_ptr, y_ptr, out_ptr):
    add(x_ptr, y_ptr, out_ptr, {BLOCK})
""",
        grid=(3, 1, 1),
        inputs=lambda generator: _vectors(generator, 3 * BLOCK),
        expected=lambda inputs: tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr"),
        slips=(
            Slip("written for the first program's elements alone; a program's begin at tl.program_id(0) * BLOCK",
                 lambda inputs: _first(inputs, BLOCK), r"tl\.arange"),
            Slip("written from each program's number on; multiply tl.program_id(0) by BLOCK",
                 lambda inputs: _first(inputs, BLOCK + 2), r"program_id"),
            Slip("written from the second element on; tl.arange begins at 0", _from_the_second, r"tl\.arange"),
            Slip("x alone; y was not added", lambda inputs: tensor(inputs, "x_ptr").clone(), r"tl\.store"),
            Slip("twice x; load y from y_ptr", lambda inputs: 2 * tensor(inputs, "x_ptr"), r"tl\.store"),
            Slip("the product; add the two", lambda inputs: tensor(inputs, "x_ptr") * tensor(inputs, "y_ptr"), r"tl\.store"),
        ),
    ),
    Step(
        name="mask",
        function="add_masked",
        result="out",
        right="The last program has lanes beyond the end, and neither reads nor writes there.",
        look="at < n is a mask; give it to both loads and to the store",
        harness=f"""
@triton.jit
def harness(x_ptr, y_ptr, n, out_ptr):
    add_masked(x_ptr, y_ptr, out_ptr, n, {BLOCK})
""",
        grid=(3, 1, 1),
        inputs=lambda generator: {**_vectors(generator, N), "n": N},
        expected=lambda inputs: tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr"),
        slips=(
            Slip("written for the first program's elements alone; at begins at tl.program_id(0) * BLOCK, and the mask reaches up to n",
                 lambda inputs: _first(inputs, BLOCK)),
            Slip("written up to the last element but one; the mask reaches up to n", lambda inputs: _first(inputs, N - 1), "<"),
        ),
    ),
    Step(
        name="tile",
        function="load_strided",
        result="tile",
        returns=TILE,
        right="Rows go down, columns go across, and each axis has its own stride.",
        look="element (i, j) lies at ptr + rows[i] * stride_row + columns[j] * stride_column; "
        "`[:, None]` and `[None, :]` spread the two",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, out_ptr):
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    tile = load_strided(x_ptr, rows, columns, stride_row, stride_column)
{stored("tile", TILE)}""",
        inputs=lambda generator: with_strides(strided_matrix(generator, ROWS, COLUMNS)),
        expected=lambda inputs: tensor(inputs, "x_ptr").contiguous(),
        slips=(
            Slip("read by the strides of the other axis; rows take stride_row, columns take stride_column",
                 _strides_exchanged, r"stride_row"),
        ),
    ),
    Step(
        name="masks",
        function="load_tile",
        result="tile",
        returns=TILE,
        right="Two axes, two ends, one mask. You will use this function in every lab.",
        look="mask=(rows < row_count)[:, None] & (columns < column_count)[None, :], and other=0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, row_count, column_count, out_ptr):
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    tile = load_tile(x_ptr, rows, columns, row_count, column_count, stride_row, stride_column)
{stored("tile", TILE)}""",
        inputs=_masked_inputs,
        expected=_padded,
        slips=(
            Slip("read by the strides of the other axis; rows take stride_row, columns take stride_column",
                 _strides_exchanged, r"stride_row"),
            Slip("filled with 1 beyond the ends; other=0", lambda inputs: _padded(inputs, beyond=1), r"other"),
            Slip("cut off too early: compare rows with row_count and columns with column_count, before they meet a stride",
                 _cut_by_offsets, r"<"),
        ),
    ),
    Step(
        name="transpose",
        function="transpose",
        result="y",
        right="Nothing was turned in registers: a transpose is the same tile, stored with other strides.",
        look="element (i, j) of the tile goes to y_ptr + columns[j] * M + rows[i], since row n of y has M elements; "
        "the mask of the store is that of the load",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, N, out_ptr):
    transpose(x_ptr, out_ptr, M, N, stride_row, stride_column, {BLOCK})
""",
        grid=(2, 2, 1),
        inputs=_transpose_inputs,
        expected=lambda inputs: tensor(inputs, "x_ptr").t().contiguous(),
        slips=(
            Slip("x row by row, not turned; column j of the tile belongs to row columns[j] of y",
                 lambda inputs: tensor(inputs, "x_ptr").contiguous().view(integer(inputs, "N"), integer(inputs, "M")), r"tl\.store"),
            Slip("turned tile by tile, and not within a tile: either tl.trans(tile) or columns[None, :] * M + rows[:, None], not both",
                 _turned_outside, r"tl\.store"),
            Slip("read with its axes exchanged: load_tile takes the rows of x first, then its columns", _read_across, r"load_tile\("),
            Slip("written in its first tile alone; rows begin at tl.program_id(0) * BLOCK, columns at tl.program_id(1) * BLOCK",
                 _first_tile, r"tl\.store"),
        ),
    ),
)  # fmt: skip
