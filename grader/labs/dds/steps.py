"""The steps of the DDS notebook: find a row's blocks, load the tile that a block names, multiply, loop, store; rows with masks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch

from grader.labs.notebook_step import Inputs, Slip, Step, integer, stored, tensor

BLOCK, ROWS = 32, 16
CROW = (0, 2, 2, 5, 6)
"""Four block rows with 2, 0, 3 and 1 blocks."""
COLUMNS = (1, 3, 0, 2, 3, 1)
WIDTH = 4 * BLOCK


def _indices() -> dict[str, torch.Tensor]:
    return {
        "crow_ptr": torch.tensor(CROW, dtype=torch.int32),
        "col_ptr": torch.tensor(COLUMNS, dtype=torch.int32),
    }


def _find_inputs(generator: torch.Generator) -> Inputs:
    return {"crow_ptr": _indices()["crow_ptr"]}


M = ROWS - 3


def _x(generator: torch.Generator) -> torch.Tensor:
    """fp16 [M, WIDTH], every other column of a wider matrix, so that neither stride is what one would guess."""
    return torch.randn(M, 2 * WIDTH + 16, generator=generator).to(torch.float16)[:, 8 : 8 + 2 * WIDTH : 2]


def _x_inputs(generator: torch.Generator) -> dict[str, torch.Tensor | int]:
    x = _x(generator)
    return {"x_ptr": x, "M": M, "stride_xm": x.stride(0), "stride_xk": x.stride(1)}


def _padded(rows: torch.Tensor) -> torch.Tensor:
    """With zeros up to ROWS rows."""
    return torch.cat([rows, rows.new_zeros(ROWS - len(rows), rows.shape[1])])


def _values(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(len(COLUMNS), BLOCK, BLOCK, generator=generator).to(torch.float16)


def _gather_inputs(generator: torch.Generator) -> Inputs:
    return {**_x_inputs(generator), "col_ptr": _indices()["col_ptr"], "b": 4}


def _x_tile(inputs: Inputs, column: int) -> torch.Tensor:
    return _padded(tensor(inputs, "x_ptr")[:, BLOCK * column : BLOCK * (column + 1)])


def _dot_inputs(generator: torch.Generator) -> Inputs:
    return {
        "x_ptr": torch.randn(ROWS, BLOCK, generator=generator).to(torch.float16),
        "values_ptr": _values(generator),
        "b": 3,
        "acc_ptr": torch.randn(ROWS, BLOCK, generator=generator),
    }


def _dot(inputs: Inputs, *, transposed: bool = True, block: int | None = None, added: bool = True) -> torch.Tensor:
    w = tensor(inputs, "values_ptr")[integer(inputs, "b") if block is None else block].double()
    y = tensor(inputs, "x_ptr").double() @ (w.t() if transposed else w)
    return (y + tensor(inputs, "acc_ptr").double() * added).float()


def _dot_overlapping(inputs: Inputs) -> torch.Tensor:
    """Block b, taken from b * BLOCK on."""
    first = BLOCK * integer(inputs, "b")
    w = tensor(inputs, "values_ptr").reshape(-1)[first : first + BLOCK * BLOCK].view(BLOCK, BLOCK).double()
    return (tensor(inputs, "x_ptr").double() @ w.t() + tensor(inputs, "acc_ptr").double()).float()


def _loop_inputs(generator: torch.Generator) -> Inputs:
    return {**_x_inputs(generator), "values_ptr": _values(generator), **_indices()}


def _rows_of_blocks(
    inputs: Inputs, ends: tuple[int, ...] = CROW[1:], starts: tuple[int, ...] = CROW[:-1], *,
    block: Callable[[int, int], int] = lambda row, b: b, column: Callable[[int, int], int] = lambda row, b: b, doubled: bool = False,
) -> torch.Tensor:  # fmt: skip
    """fp32 [4, ROWS, BLOCK]: for each block row the sum over its blocks. block(row, b) and column(row, b): whose values and whose
    column index are taken for block b; doubled: the sum so far is counted again in every turn."""
    x, values = tensor(inputs, "x_ptr").double(), tensor(inputs, "values_ptr").double()
    y = torch.zeros(4, ROWS, BLOCK, dtype=torch.float64)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for b in range(start, end):
            first = BLOCK * COLUMNS[column(row, b)]
            y[row, :M] = (2 if doubled else 1) * y[row, :M] + x[:, first : first + BLOCK] @ values[block(row, b)].t()
    return y.float()


def _loop_tolerance(inputs: Inputs) -> torch.Tensor:
    """What a tile holds in rows beyond M is never stored."""
    allowed = _sum_tolerance(_rows_of_blocks(inputs))
    allowed[:, M:] = float("inf")
    return allowed


def _store_inputs(generator: torch.Generator) -> Inputs:
    return {"acc_ptr": 10 * torch.randn(ROWS, BLOCK, generator=generator), "M": M, "stride_ym": 4 * BLOCK, "stride_yn": 2}


def _stored(inputs: Inputs) -> torch.Tensor:
    """Every other column of a wider matrix."""
    y = torch.zeros(M, 4 * BLOCK, dtype=torch.float16)[:, : 2 * BLOCK : 2]
    return y.copy_(tensor(inputs, "acc_ptr")[:M])


def _sum_tolerance(expected: torch.Tensor) -> torch.Tensor:
    """An fp32 sum in any order."""
    return 1e-4 + 1e-5 * expected.double().abs()


OFFSETS = f"""
    rows, inner = tl.arange(0, {ROWS}), tl.arange(0, {BLOCK})
"""

TILE, ACC = f"fp16 [{ROWS}, {BLOCK}]", f"fp32 [{ROWS}, {BLOCK}]"

STEPS = (
    Step(
        name="find",
        function="find_blocks",
        result="first and last",
        right="Two numbers say which blocks belong to a block row, and an empty row needs no special case: its range is empty.",
        look="block row r owns the blocks from crow[r] up to, but not including, crow[r + 1]; return both numbers",
        harness="""
@triton.jit
def harness(crow_ptr, out_ptr):
    for block_row in range(4):
        first, last = find_blocks(crow_ptr, block_row)
        tl.store(out_ptr + 2 * block_row, first)
        tl.store(out_ptr + 2 * block_row + 1, last)
""",
        inputs=_find_inputs,
        expected=lambda inputs: torch.stack([tensor(inputs, "crow_ptr")[:-1], tensor(inputs, "crow_ptr")[1:]], dim=1),
        slips=(
            Slip(
                "one too small at the end: let `last` be the first block that is no longer the row's",
                lambda inputs: torch.stack(
                    [tensor(inputs, "crow_ptr")[:-1], tensor(inputs, "crow_ptr")[1:] - 1], dim=1
                ),
            ),
            Slip(
                "the start twice; the end is the next element, at block_row + 1",
                lambda inputs: torch.stack([tensor(inputs, "crow_ptr")[:-1], tensor(inputs, "crow_ptr")[:-1]], dim=1),
            ),
            Slip(
                "the end and the start; exchange the two",
                lambda inputs: torch.stack([tensor(inputs, "crow_ptr")[1:], tensor(inputs, "crow_ptr")[:-1]], dim=1),
            ),
            Slip(
                "the start, and one more than the start; the end is the next element, at block_row + 1",
                lambda inputs: torch.stack([tensor(inputs, "crow_ptr")[:-1], tensor(inputs, "crow_ptr")[:-1] + 1], dim=1),
            ),
            Slip(
                "right at the end and 0 at the start; a row's blocks begin where the row above ends, at crow[r]",
                lambda inputs: torch.stack([torch.zeros_like(tensor(inputs, "crow_ptr")[1:]), tensor(inputs, "crow_ptr")[1:]], dim=1),
            ),
            Slip(
                "a start and a number of blocks; expected the start and the end",
                lambda inputs: torch.stack([tensor(inputs, "crow_ptr")[:-1], tensor(inputs, "crow_ptr").diff()], dim=1),
            ),
        ),
    ),
    Step(
        name="gather",
        function="load_x_tile",
        result="tile",
        returns=TILE,
        right="The column index of a block tells which 32 columns of X it meets; the others are never read.",
        look="load col_indices[b], multiply by BLOCK, and let the tile's columns begin there; "
        "mask=(rows < M)[:, None], and other=0.0 for what is left out",
        harness=f"""
@triton.jit
def harness(x_ptr, M, stride_xm, stride_xk, col_ptr, b, out_ptr):{OFFSETS}
    tile = load_x_tile(x_ptr, col_ptr, b, rows, M, stride_xm, stride_xk, {BLOCK})
{stored("tile", TILE)}""",
        inputs=_gather_inputs,
        expected=lambda inputs: _x_tile(inputs, COLUMNS[4]),
        slips=(
            Slip("the first tile of X; the block's column index was not used", lambda inputs: _x_tile(inputs, 0)),
            Slip(
                "the tile that begins at the column index itself; it counts blocks, so multiply it by BLOCK",
                lambda inputs: _padded(tensor(inputs, "x_ptr")[:, COLUMNS[4] : COLUMNS[4] + BLOCK]),
                r"col_indices_ptr",
            ),
        ),
    ),
    Step(
        name="dot",
        function="multiply_block",
        result="acc",
        returns=ACC,
        right="W is stored as [N, K], so a block is [n, k] and the product needs it as [k, n].",
        look="block b begins at values_ptr + b * BLOCK * BLOCK; read element (k, n) of its transpose at n * BLOCK + k",
        harness=f"""
@triton.jit
def harness(x_ptr, values_ptr, b, acc_ptr, out_ptr):{OFFSETS}
    at = rows[:, None] * {BLOCK} + inner[None, :]
    acc = multiply_block(tl.load(x_ptr + at), values_ptr, b, tl.load(acc_ptr + at), {BLOCK})
{stored("acc", ACC)}""",
        inputs=_dot_inputs,
        expected=_dot,
        tolerance=lambda inputs: _sum_tolerance(_dot(inputs)),
        slips=(
            Slip(
                "the product with the block as it is stored; transpose it",
                lambda inputs: _dot(inputs, transposed=False),
                r"tl\.load",
            ),
            Slip("the product with block 0; begin at block b", lambda inputs: _dot(inputs, block=0), r"tl\.load"),
            Slip("the product alone; acc was not added", lambda inputs: _dot(inputs, added=False), r"tl\.dot"),
            Slip("the sum with acc counted twice; tl.dot with acc as an argument adds it already",
                 lambda inputs: _dot(inputs) + tensor(inputs, "acc_ptr"), r"tl\.dot"),
            Slip("acc as it was; return what tl.dot gives, or assign it to acc",
                 lambda inputs: tensor(inputs, "acc_ptr").clone(), r"tl\.dot"),
            Slip("the product with what lies b * BLOCK elements on; a block has BLOCK * BLOCK of them", _dot_overlapping, r"values_ptr"),
        ),
    ),
    Step(
        name="loop",
        function="accumulate",
        result="acc (block row, row, column)",
        returns=ACC,
        right="Only present blocks were touched, and the empty block row gave zeros.",
        look="start from tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32) and go from `first` up to, but not including, `last`",
        harness=f"""
@triton.jit
def harness(x_ptr, M, stride_xm, stride_xk, values_ptr, crow_ptr, col_ptr, out_ptr):{OFFSETS}
    block_row = tl.program_id(0)
    acc = accumulate(x_ptr, values_ptr, crow_ptr, col_ptr, block_row, rows, M, stride_xm, stride_xk, {ROWS}, {BLOCK})
{stored("acc", ACC, at=f"out_ptr + block_row * {ROWS * BLOCK}")}""",
        grid=(len(CROW) - 1, 1, 1),
        inputs=_loop_inputs,
        expected=_rows_of_blocks,
        tolerance=_loop_tolerance,
        slips=(
            Slip(
                "zero everywhere; does acc keep what multiply_block returns?",
                lambda inputs: torch.zeros_like(_rows_of_blocks(inputs)),
                r"multiply_block\(",
            ),
            Slip(
                "without the last block of each row",
                lambda inputs: _rows_of_blocks(inputs, tuple(max(a, b - 1) for a, b in pairwise(CROW))),
                r"\brange\(",
            ),
            Slip(
                "the sum with the blocks of the rows above; begin at `first`",
                lambda inputs: _rows_of_blocks(inputs, starts=(0,) * (len(CROW) - 1)),
                r"\brange\(",
            ),
            Slip(
                "without the first block of each row",
                lambda inputs: _rows_of_blocks(inputs, starts=tuple(start + 1 for start in CROW[:-1])),
                r"\brange\(",
            ),
            Slip(
                "the sum of the first blocks of all; go from `first` to `last`, not from 0 to their number",
                lambda inputs: _rows_of_blocks(inputs, tuple(b - a for a, b in pairwise(CROW)), (0,) * (len(CROW) - 1)),
                r"\brange\(",
            ),
            Slip(
                "the sum with acc counted again in every turn; multiply_block adds it already, so write acc = and not acc +=",
                lambda inputs: _rows_of_blocks(inputs, doubled=True),
                r"multiply_block\(",
            ),
            Slip(
                "made with values counted from the row's first block; b counts all blocks",
                lambda inputs: _rows_of_blocks(inputs, block=lambda row, b: b - CROW[row]),
                r"multiply_block\(",
            ),
            Slip(
                "made with column indices counted from the row's first block; b counts all blocks",
                lambda inputs: _rows_of_blocks(inputs, column=lambda row, b: b - CROW[row]),
                r"load_x_tile\(",
            ),
            Slip(
                "made with the values of block number block_row; they are those of block b",
                lambda inputs: _rows_of_blocks(inputs, block=lambda row, b: row),
                r"multiply_block\(",
            ),
            Slip(
                "made with the column index of block number block_row; it is that of block b",
                lambda inputs: _rows_of_blocks(inputs, column=lambda row, b: row),
                r"load_x_tile\(",
            ),
            Slip(
                "the sum of the first block row for each; find_blocks takes block_row",
                lambda inputs: _rows_of_blocks(inputs, (CROW[1],) * (len(CROW) - 1), (0,) * (len(CROW) - 1)),
                r"find_blocks\(",
            ),
        ),
    ),
    Step(
        name="store",
        function="store_tile",
        result="Y",
        right="Every row inside Y was written once, and no row beyond it was touched.",
        look="convert acc to fp16 and give tl.store a mask: (rows < M)[:, None]",
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
