"""The warm-ups that multiply: a sparse matrix times a vector, and a tiled product."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch

from grader.exercises.opening.matrices import BLOCK, BLOCK_K, K_LONG, M_TALL, N_WIDE
from grader.labs.notebook_step import Inputs, Slip, Step, integer, tensor

CROW, COL = (0, 2, 2, 5, 6), (1, 3, 0, 2, 3, 1)
"""A weight of 4 x 4 blocks: block rows with 2, 0, 3 and 1 blocks."""


def _sparse_inputs(generator: torch.Generator) -> Inputs:
    return {
        "values_ptr": torch.randn(len(COL), BLOCK, BLOCK, generator=generator),
        "crow_indices_ptr": torch.tensor(CROW, dtype=torch.int32),
        "col_indices_ptr": torch.tensor(COL, dtype=torch.int32),
        "x_ptr": torch.randn(4 * BLOCK, generator=generator),
    }


def _sparse(
    inputs: Inputs, *, shorter: int = 0, above: bool = False, transposed: bool = False, stride: int = BLOCK, replaced: bool = False,
    apart: int = BLOCK * BLOCK, columns: Callable[[int, int], int] = lambda row, b: COL[b],
) -> torch.Tensor:  # fmt: skip
    """fp32 [4 * BLOCK]. shorter: so many blocks of each row are left out; above: those of the rows above come along; stride:
    by how many elements of x a block column counts; replaced: each block takes the place of the sum before it; apart: by how many
    elements of values block b counts; columns(row, b): the block column that is used."""
    x, values = tensor(inputs, "x_ptr").double(), tensor(inputs, "values_ptr").double()
    y = torch.zeros(4, BLOCK, dtype=torch.float64)
    for row, (start, end) in enumerate(pairwise(CROW)):
        for b in range(0 if above else start, max(start, end - shorter)):
            block = values.reshape(-1)[apart * b : apart * b + BLOCK * BLOCK].view(BLOCK, BLOCK)
            first = stride * columns(row, b)
            product = (block.t() if transposed else block) @ x[first : first + BLOCK]
            y[row] = product if replaced else y[row] + product
    return y.float().view(-1)


def _of_rows(inputs: Inputs, of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """fp32 [4 * BLOCK]: what `of` makes of each block and its part of x, added up by block row."""
    x, values = tensor(inputs, "x_ptr").double().view(4, BLOCK), tensor(inputs, "values_ptr").double()
    rows = [sum((of(values[b], x[COL[b]]) for b in range(*ends)), torch.zeros(BLOCK, dtype=torch.float64)) for ends in pairwise(CROW)]
    return torch.cat(rows).float()


def _summed_down(inputs: Inputs) -> torch.Tensor:
    return _of_rows(inputs, lambda block, x: (block * x[None, :]).sum(dim=0))


def _scaled_rows(inputs: Inputs) -> torch.Tensor:
    return _of_rows(inputs, lambda block, x: (block * x[:, None]).sum(dim=1))


def _counted_from_zero(inputs: Inputs) -> torch.Tensor:
    """Each block row with as many blocks as it has, counted from the first of all."""
    x, values = tensor(inputs, "x_ptr").double().view(4, BLOCK), tensor(inputs, "values_ptr").double()
    rows = [
        sum((values[b] @ x[COL[b]] for b in range(end - start)), torch.zeros(BLOCK, dtype=torch.float64)) for start, end in pairwise(CROW)
    ]
    return torch.cat(rows).float()


def _one_each(inputs: Inputs) -> torch.Tensor:
    """Each block row with one block, the first from its own beginning on, whether it has one or not."""
    x, values = tensor(inputs, "x_ptr").double().view(4, BLOCK), tensor(inputs, "values_ptr").double()
    return torch.cat([values[start] @ x[COL[start]] for start in CROW[:-1]]).float()


def _first_rows(inputs: Inputs) -> torch.Tensor:
    """Every row of a block is its first one."""
    return _of_rows(inputs, lambda block, x: (block[0] @ x).expand(BLOCK))


def _product_inputs(generator: torch.Generator) -> Inputs:
    x, w = (torch.randn(size, K_LONG, generator=generator).to(torch.float16) for size in (M_TALL, N_WIDE))
    return {"x_ptr": x, "w_ptr": w, "M": M_TALL, "N": N_WIDE, "K": K_LONG}


def _product(inputs: Inputs, *, first: int = 0, last: int | None = None, untransposed: bool = False) -> torch.Tensor:
    """fp16 [M, N]. untransposed: W's memory is read as if it were [K, N]."""
    x, w = tensor(inputs, "x_ptr").double(), tensor(inputs, "w_ptr").double()
    w = w.reshape(integer(inputs, "K"), integer(inputs, "N")) if untransposed else w.t()
    return (x[:, first:last] @ w[first:last]).to(torch.float16)


def _turns(inputs: Inputs, *shares: float) -> torch.Tensor:
    """fp16 [M, N]: the products of the tiles along K, each counted so many times."""
    x, w = tensor(inputs, "x_ptr").double(), tensor(inputs, "w_ptr").double().t()
    parts = zip(shares, x.split(BLOCK_K, dim=1), w.split(BLOCK_K), strict=True)
    return sum((share * (left @ right) for share, left, right in parts), torch.zeros(M_TALL, N_WIDE)).to(torch.float16)


def _again(inputs: Inputs) -> torch.Tensor:
    """fp16 [M, N]: the first tile along K in every turn."""
    x, w = (tensor(inputs, name).double()[:, :BLOCK_K] for name in ("x_ptr", "w_ptr"))
    return (-(-K_LONG // BLOCK_K) * (x @ w.t())).to(torch.float16)


def _overlapping(inputs: Inputs, turns: int) -> torch.Tensor:
    """fp16 [M, N]: so many tiles along K, each one element further than the one before."""
    x, w = tensor(inputs, "x_ptr").double(), tensor(inputs, "w_ptr").double().t()
    parts = (x[:, k : k + BLOCK_K] @ w[k : k + BLOCK_K] for k in range(turns))
    return sum(parts, torch.zeros(M_TALL, N_WIDE)).to(torch.float16)


def _diagonal(inputs: Inputs) -> torch.Tensor:
    """The product where program pid has the tiles' row pid and column pid % 3; NaN elsewhere."""
    y, seen = _product(inputs), torch.zeros(M_TALL, N_WIDE, dtype=torch.bool)
    for pid in range(6):
        seen[BLOCK * pid : BLOCK * (pid + 1), BLOCK * (pid % 3) : BLOCK * (pid % 3 + 1)] = True
    return torch.where(seen, y, torch.nan)


def _x_across(inputs: Inputs) -> torch.Tensor:
    """fp16 [M, N]: X's memory read as if it were [K, M]."""
    x, w = tensor(inputs, "x_ptr").double(), tensor(inputs, "w_ptr").double().t()
    return (x.reshape(K_LONG, M_TALL).t() @ w).to(torch.float16)


def _columns_written(inputs: Inputs, columns: int) -> torch.Tensor:
    """The product in its first columns; NaN in the others, which no program writes."""
    y = _product(inputs)
    y[:, columns:] = float("nan")
    return y


STEPS = (
    Step(
        name="bsr",
        function="sparse_times_vector",
        result="y",
        right="Only blocks that are there were read, and the empty block row gave zeros without a special case.",
        look="block row r owns the blocks from crow_indices[r] up to, but not including, crow_indices[r + 1]; block b meets the "
        "elements of x from BLOCK * col_indices[b] on; tl.sum(block * x[None, :], axis=1)",
        harness=f"""
@triton.jit
def harness(values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, out_ptr):
    sparse_times_vector(values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, out_ptr, {BLOCK})
""",
        grid=(4, 1, 1),
        inputs=_sparse_inputs,
        expected=_sparse,
        tolerance=lambda inputs: 1e-4 + 1e-5 * _sparse(inputs).double().abs(),
        slips=(
            Slip("without the last block of each row", lambda inputs: _sparse(inputs, shorter=1), r"\brange\("),
            Slip("the last block of each row alone; is y added to, or replaced?", lambda inputs: _sparse(inputs, replaced=True),
                 r"tl\.sum"),
            Slip("with each block transposed: rows go down, and a row has BLOCK elements",
                 lambda inputs: _sparse(inputs, transposed=True), r"values_ptr"),
            Slip("with the first elements of x for every block; begin at BLOCK * col_indices[b]",
                 lambda inputs: _sparse(inputs, stride=0), r"x_ptr"),
            Slip("with elements of x from col_indices[b] on; it counts blocks, so multiply it by BLOCK",
                 lambda inputs: _sparse(inputs, stride=1), r"x_ptr"),
            Slip("with the blocks of the rows above too; begin at crow_indices[r]",
                 lambda inputs: _sparse(inputs, above=True), r"\brange\("),
            Slip("with blocks that overlap; block b begins at b * BLOCK * BLOCK",
                 lambda inputs: _sparse(inputs, apart=BLOCK), r"values_ptr"),
            Slip("with block 0 every time; block b begins at b * BLOCK * BLOCK", lambda inputs: _sparse(inputs, apart=0), r"values_ptr"),
            Slip("summed down the columns; a row of the block meets all of x, so axis=1", _summed_down, r"axis"),
            Slip("multiplied by one element of x for each row; the columns of a block meet x, so x[None, :]", _scaled_rows, r"x\["),
            Slip("with the first blocks of all for every row; begin at crow_indices[r]", _counted_from_zero, r"\brange\("),
            Slip("one block for each row: the bound of range is crow_indices[r + 1], so + 1 goes inside tl.load", _one_each, r"\brange\("),
            Slip("with the first row of a block in the place of every row: a tile has offsets for both axes, "
                 "inner[:, None] * BLOCK + inner[None, :]", _first_rows, r"values_ptr"),
            Slip("with the block column of the row's number; block b has col_indices[b]",
                 lambda inputs: _sparse(inputs, columns=lambda row, b: COL[row]), r"col_indices_ptr"),
            Slip("written for block rows that have blocks alone; store after the loop, once, the zeros of an empty row too",
                 lambda inputs: torch.where(_sparse(inputs) == 0, torch.nan, _sparse(inputs)), r"tl\.store"),
        ),
    ),
    Step(
        name="product",
        function="multiply",
        result="y",
        right="A tiled product with tails on all sides. The labs change what happens between load and dot.",
        look="rows and columns of the tile from pid; in the loop x is load_tile(x_ptr, rows, depth, M, K, K, 1), and w, read as [K, N], "
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
        slips=(
            Slip("without the last tile along K, of which only a part lies inside; where does range end?",
                 lambda inputs: _product(inputs, last=2 * BLOCK_K), r"\brange\("),
            Slip("without the first tile along K; where does range begin?", lambda inputs: _product(inputs, first=BLOCK_K), r"\brange\("),
            Slip("the last tile along K alone; is acc added to, or replaced?", lambda inputs: _product(inputs, first=2 * BLOCK_K),
                 r"tl\.dot"),
            Slip("the first tile along K alone; does the loop go on up to K, and does k count elements and not tiles?",
                 lambda inputs: _turns(inputs, 1, 0, 0), r"\brange\("),
            Slip("the first tile along K, again and again; depth begins at k", _again, r"depth ="),
            Slip("zero everywhere; does acc keep what tl.dot returns?", lambda inputs: _turns(inputs, 0, 0, 0), r"tl\.dot"),
            Slip("the sum with acc counted again in every turn; tl.dot(x, w, acc) adds it already, so write acc = and not acc +=",
                 lambda inputs: _turns(inputs, 4, 2, 1), r"tl\.dot"),
            Slip("without its last column of tiles; tl.cdiv(N, BLOCK_N) tiles make a row, pid // that is the tile's row, "
                 "pid % that its column", lambda inputs: _columns_written(inputs, 2 * BLOCK)),
            Slip("the first column of tiles alone; the grid has one axis, so the tile's column comes from pid, too",
                 lambda inputs: _columns_written(inputs, BLOCK)),
            Slip("the product with W read as if it were stored as [K, N]; its strides are 1 and K",
                 lambda inputs: _product(inputs, untransposed=True), r"w_ptr"),
            Slip("made of tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                 lambda inputs: _overlapping(inputs, -(-K_LONG // BLOCK_K)), r"\brange\("),
            Slip("made of tiles along K that overlap; k is 0, BLOCK_K, 2 * BLOCK_K and so on: range(0, K, BLOCK_K)",
                 lambda inputs: _overlapping(inputs, K_LONG), r"\brange\("),
            Slip("written on a diagonal of tiles alone; the tile's row is pid // tiles_n and its column pid % tiles_n", _diagonal, r"pid"),
            Slip("the product with X read column by column; x lies row by row, so its strides are K and 1",
                 _x_across, r"x_ptr"),
        ),
    ),
)  # fmt: skip
