"""The steps of the DDS notebook: find a row's blocks, load the tile that a block names, multiply, loop, store; rows with masks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from grader.labs.notebook_step import Inputs, Step, apart, integer, normal, padded, stored, sum_tolerance, tensor

BLOCK, ROWS = 32, 16
CROW = (0, 2, 2, 5, 6)
"""Four block rows with 2, 0, 3 and 1 blocks."""
COLUMNS = (1, 3, 0, 2, 3, 1)
WIDTH = 4 * BLOCK
M = ROWS - 3


def _indices(numbers: Sequence[int]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def _x_inputs(generator: torch.Generator) -> dict[str, torch.Tensor | int]:
    x = apart(normal(generator, M, WIDTH).to(torch.float16))
    return {"x_ptr": x, "M": M, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _values(generator: torch.Generator) -> torch.Tensor:
    return normal(generator, len(COLUMNS), BLOCK, BLOCK).to(torch.float16)


def _gathered(inputs: Inputs) -> torch.Tensor:
    first = BLOCK * COLUMNS[integer(inputs, "b")]
    return padded(tensor(inputs, "x_ptr")[:, first : first + BLOCK], ROWS, BLOCK)


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": normal(generator, ROWS, BLOCK).to(torch.float16),
        "values_ptr": _values(generator),
        "b": 3,
        "acc_ptr": normal(generator, ROWS, BLOCK),
    }


def _dot(inputs: Inputs) -> torch.Tensor:
    block = tensor(inputs, "values_ptr")[integer(inputs, "b")].double()
    return (tensor(inputs, "acc_ptr").double() + tensor(inputs, "x_ptr").double() @ block.t()).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    x = _x_inputs(generator)
    return {
        **x,
        "values_ptr": _values(generator),
        "crow_indices_ptr": _indices(CROW),
        "col_indices_ptr": _indices(COLUMNS),
    }


def _rows_of_blocks(inputs: Inputs) -> torch.Tensor:
    """fp32 [4, ROWS, BLOCK]: for each block row the sum over its blocks."""
    x, values = tensor(inputs, "x_ptr").double(), tensor(inputs, "values_ptr").double()
    y = torch.zeros(4, ROWS, BLOCK, dtype=torch.float64)
    for row, (start, end) in enumerate(pairwise(CROW)):
        for b in range(start, end):
            first = BLOCK * COLUMNS[b]
            y[row, :M] += x[:, first : first + BLOCK] @ values[b].t()
    return y.float()


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """What a tile holds in rows beyond M is never stored."""
    allowed = sum_tolerance(_rows_of_blocks(inputs))
    allowed[:, M:] = float("inf")
    return allowed


def _store_inputs(generator: torch.Generator) -> Inputs:
    return {"acc_ptr": 10 * normal(generator, ROWS, BLOCK), "M": M, "stride_ym": 4 * BLOCK, "stride_yn": 2}


def _stored(inputs: Inputs) -> torch.Tensor:
    """Every other column of a wider matrix."""
    y = torch.zeros(M, 4 * BLOCK, dtype=torch.float16)[:, : 2 * BLOCK : 2]
    return y.copy_(tensor(inputs, "acc_ptr")[:M])


OFFSETS = f"""
    rows, inner = tl.arange(0, {ROWS}), tl.arange(0, {BLOCK})
"""

TILE, ACC = f"fp16 [{ROWS}, {BLOCK}]", f"fp32 [{ROWS}, {BLOCK}]"

STEPS = (
    Step(
        name="find",
        function="find_blocks",
        result="found (block row; first, last)",
        right="Two numbers say which blocks belong to a block row, and an empty row needs no special case: its range is empty.",
        hint="a block row ends where the next one begins; both numbers are in crow_indices",
        code="return tl.load(crow_indices_ptr + block_row), tl.load(crow_indices_ptr + block_row + 1)",
        harness="""
@triton.jit
def harness(crow_indices_ptr, out_ptr):
    for block_row in range(4):
        first, last = find_blocks(crow_indices_ptr, block_row)
        tl.store(out_ptr + 2 * block_row, first)
        tl.store(out_ptr + 2 * block_row + 1, last)
""",
        inputs=lambda generator: {"crow_indices_ptr": _indices(CROW)},
        expected=lambda inputs: torch.stack(
            [tensor(inputs, "crow_indices_ptr")[:-1], tensor(inputs, "crow_indices_ptr")[1:]], dim=1
        ),
    ),
    Step(
        name="gather",
        function="load_x_tile",
        result="tile",
        returns=TILE,
        right="The column index of a block says by which 32 columns of X it is multiplied; the others are never read.",
        hint="the column index counts blocks, and each is BLOCK columns wide; rows from M on are not read, and count as zero",
        code="load col_indices[b], multiply by BLOCK, and let the tile's columns begin there; mask=(rows < M)[:, None], and "
        "other=0.0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, M, stride_xm, stride_xk, col_indices_ptr, b, out_ptr):{OFFSETS}
    tile = load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, {BLOCK})
{stored("tile", TILE)}""",
        inputs=lambda generator: {**_x_inputs(generator), "col_indices_ptr": _indices(COLUMNS), "b": 4},
        expected=_gathered,
    ),
    Step(
        name="dot",
        function="multiply_block",
        result="acc",
        returns=ACC,
        right="W is stored as [N, K], so a block is [n, k] and the product needs it as [k, n].",
        hint="how many numbers lie before block b? Read it with its rows and columns exchanged",
        code="block b begins at values_ptr + b * BLOCK * BLOCK; read element (k, n) of its transpose at n * BLOCK + k",
        harness=f"""
@triton.jit
def harness(x_ptr, values_ptr, b, acc_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {BLOCK} + inner[None, :]
    acc = multiply_block(tl.load(x_ptr + at), values_ptr, b, tl.load(acc_ptr + at), {BLOCK})
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=_dot,
        tolerance=lambda inputs: sum_tolerance(_dot(inputs)),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc (block row, row, column)",
        returns=ACC,
        right="Only the stored blocks were read, and the empty block row gave zeros.",
        hint="an fp32 sum that begins at zero, and a loop over the blocks of this row and no others",
        code="start from tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32) and go from `first` up to, but not including, `last`",
        harness=f"""
@triton.jit
def harness(x_ptr, M, stride_xm, stride_xk, values_ptr, crow_indices_ptr, col_indices_ptr, out_ptr):{OFFSETS}
    block_row = tl.program_id(0)
    acc = accumulate(x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, block_row, rows, M, stride_xm, stride_xk, {ROWS}, {BLOCK})
{stored("acc", ACC, at=f"out_ptr + block_row * {ROWS * BLOCK}")}""",
        grid=(len(CROW) - 1, 1, 1),
        inputs=_loop_inputs,
        expected=_rows_of_blocks,
        tolerance=_loop_tolerance,
    ),
    Step(
        name="store",
        function="store_tile",
        result="Y",
        right="Every row inside Y was written once, and no row beyond it was touched.",
        hint="convert, and leave out the rows beyond Y; the columns always fit",
        code="convert acc to fp16 and give tl.store a mask: (rows < M)[:, None]",
        harness=f"""
@triton.jit
def harness(acc_ptr, M, stride_ym, stride_yn, out_ptr):{OFFSETS}
    acc = tl.load(acc_ptr + rows[:, None] * {BLOCK} + inner[None, :])
    store_tile(out_ptr, acc, rows, inner, M, stride_ym, stride_yn)
""",
        inputs=_store_inputs,
        expected=_stored,
    ),
)
