"""The warm-ups of the opening: add, masks, strides, a transpose, row scales, int4 words, BSR, a tiled product. No points."""

from __future__ import annotations

from itertools import pairwise

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Slip, Step, integer, stored, tensor

BLOCK = 16
N = 3 * BLOCK - 7
ROWS, COLUMNS = 16, 32
WORDS = 16
M_TALL, K_LONG, N_WIDE, BLOCK_K = 21, 80, 40, 32
CROW, COL = (0, 2, 2, 5, 6), (1, 3, 0, 2, 3, 1)
"""A weight of 4 x 4 blocks: block rows with 2, 0, 3 and 1 blocks."""


def _vectors(generator: torch.Generator, size: int) -> Inputs:
    return {name: torch.randn(size, generator=generator) for name in ("x_ptr", "y_ptr")}


def _first(inputs: Inputs, count: int) -> torch.Tensor:
    """The first elements of the sum; NaN for the rest, which is never written."""
    sums = tensor(inputs, "x_ptr") + tensor(inputs, "y_ptr")
    sums[count:] = float("nan")
    return sums


def _matrix(generator: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    """fp16 [rows, columns], every other column of a wider matrix, so that neither stride is what one would guess."""
    wide = torch.randn(rows, 2 * columns + 16, generator=generator).to(torch.float16)
    return wide[:, 8 : 8 + 2 * columns : 2]


def _strides(x: torch.Tensor) -> Inputs:
    return {"x_ptr": x, "stride_row": x.stride(0), "stride_column": x.stride(1)}


def _strides_exchanged(inputs: Inputs) -> torch.Tensor:
    """fp16 [ROWS, COLUMNS]: x read by the wrong stride along each axis; NaN where that leads out of it, zeros outside the mask."""
    x = tensor(inputs, "x_ptr")
    rows, columns = x.shape
    tile = torch.zeros(ROWS, COLUMNS, dtype=torch.float16)
    tile[:rows, :columns] = float("nan")
    tile[:rows, :rows] = x[:, :rows].t()
    return tile


def _masked_inputs(generator: torch.Generator) -> Inputs:
    x = _matrix(generator, ROWS - 3, COLUMNS - 5)
    return {**_strides(x), "row_count": ROWS - 3, "column_count": COLUMNS - 5}


def _padded(inputs: Inputs) -> torch.Tensor:
    x = tensor(inputs, "x_ptr")
    padded = torch.zeros(ROWS, COLUMNS, dtype=torch.float16)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


def _transpose_inputs(generator: torch.Generator) -> Inputs:
    return {**_strides(_matrix(generator, M_TALL, N - BLOCK)), "M": M_TALL, "N": N - BLOCK}


def _scales_inputs(generator: torch.Generator) -> Inputs:
    """The largest of a row is negative in every other row and lies in another tile from row to row; every seventh row is zero."""
    x = _matrix(generator, M_TALL, K_LONG)
    row = torch.arange(M_TALL)
    x[row, (31 * row) % K_LONG] = (5.0 + row % 4).to(torch.float16) * torch.where(row % 2 == 0, -1, 1)
    x[::7] = 0
    return {**_strides(x), "M": M_TALL, "K": K_LONG}


def _scales(inputs: Inputs, *, first: int = 0, last: int | None = None, signed: bool = False, zero: float = 1.0) -> torch.Tensor:
    """fp32 [M]: largest magnitude over part of K, by 127; `zero` for a row of zeros."""
    x = tensor(inputs, "x_ptr").float()[:, first:last]
    scale = (x if signed else x.abs()).amax(dim=1) / 127
    return torch.where((x == 0).all(dim=1), torch.full_like(scale, zero), scale)


def _of_tiles(inputs: Inputs) -> torch.Tensor:
    """fp32 [M]: one scale for all rows of a program."""
    peaks = [rows.abs().amax().float().expand(len(rows)) for rows in tensor(inputs, "x_ptr").split(BLOCK)]
    return torch.cat(peaks) / 127


def _nibbles(generator: torch.Generator) -> torch.Tensor:
    """int32 [WORDS, 8] of -8 to 7; the first word holds each of the lower half, the second of the upper."""
    q = torch.randint(-8, 8, (WORDS, 8), generator=generator)
    q[0], q[1] = torch.arange(-8, 0), torch.arange(0, 8)
    return q.to(torch.int32)


def _packed(q: torch.Tensor) -> torch.Tensor:
    return pack_int4(q.reshape(-1, 1)).view(WORDS)


def _shifted_first(inputs: Inputs) -> torch.Tensor:
    """int32 [WORDS]: q & (0xF << 4 * i), as Python reads it without brackets."""
    masked = tensor(inputs, "q_ptr").long() & (0xF << 4 * torch.arange(8))
    return masked.sum(dim=1).to(torch.int32)


def _unpacked(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")[:, None]).view(WORDS, 8)


def _sparse_inputs(generator: torch.Generator) -> Inputs:
    return {
        "values_ptr": torch.randn(len(COL), BLOCK, BLOCK, generator=generator),
        "crow_indices_ptr": torch.tensor(CROW, dtype=torch.int32),
        "col_indices_ptr": torch.tensor(COL, dtype=torch.int32),
        "x_ptr": torch.randn(4 * BLOCK, generator=generator),
    }


def _sparse(
    inputs: Inputs, *, shorter: int = 0, above: bool = False, transposed: bool = False, stride: int = BLOCK, replaced: bool = False
) -> torch.Tensor:
    """fp32 [4 * BLOCK]. shorter: so many blocks of each row are left out; above: those of the rows above come along; stride:
    by how many elements of x a block column counts; replaced: each block takes the place of the sum before it."""
    x, values = tensor(inputs, "x_ptr").double(), tensor(inputs, "values_ptr").double()
    y = torch.zeros(4, BLOCK, dtype=torch.float64)
    for row, (start, end) in enumerate(pairwise(CROW)):
        for b in range(0 if above else start, max(start, end - shorter)):
            block = values[b].t() if transposed else values[b]
            product = block @ x[stride * COL[b] : stride * COL[b] + BLOCK]
            y[row] = product if replaced else y[row] + product
    return y.float().view(-1)


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


def _columns_written(inputs: Inputs, columns: int) -> torch.Tensor:
    """The product in its first columns; NaN in the others, which no program writes."""
    y = _product(inputs)
    y[:, columns:] = float("nan")
    return y


TILE, PACKED, OPENED = f"fp16 [{ROWS}, {COLUMNS}]", f"int32 [{WORDS}]", f"int32 [{WORDS}, 8]"

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
            Slip("written for the first program's elements alone; add tl.program_id(0) * BLOCK",
                 lambda inputs: _first(inputs, BLOCK), r"tl\.arange"),
            Slip("written from each program's number on; multiply tl.program_id(0) by BLOCK",
                 lambda inputs: _first(inputs, BLOCK + 2), r"program_id"),
            Slip("x alone; y was not added", lambda inputs: tensor(inputs, "x_ptr").clone(), r"tl\.store"),
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
            Slip("written for the first program's elements alone; add tl.program_id(0) * BLOCK",
                 lambda inputs: _first(inputs, BLOCK), r"tl\.arange"),
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
        inputs=lambda generator: _strides(_matrix(generator, ROWS, COLUMNS)),
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
        ),
    ),
    Step(
        name="scales",
        function="row_scales",
        result="scale",
        right="This is the kernel that computes input_scale for W8A8: one pass over X, one number a row.",
        look="keep a vector of BLOCK_M maxima that begins with zeros; for each tile along K take "
        "tl.maximum of it and tl.max(tl.abs(tile), axis=1); at the end divide by 127, and let tl.where put 1 where the maximum is 0",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, K, out_ptr):
    row_scales(x_ptr, out_ptr, M, K, stride_row, stride_column, {BLOCK}, {BLOCK_K})
""",
        grid=(2, 1, 1),
        inputs=_scales_inputs,
        expected=_scales,
        tolerance=lambda inputs: _scales(inputs).double() * 1e-6,
        slips=(
            Slip("the largest value, not the largest magnitude; take tl.abs first", lambda inputs: _scales(inputs, signed=True),
                 r"tl\.max\("),
            Slip("0 for a row of zeros, by which nobody can divide; make it 1", lambda inputs: _scales(inputs, zero=0.0), r"127"),
            Slip("that of the last tile along K alone; keep the larger of it and what was there",
                 lambda inputs: _scales(inputs, first=2 * BLOCK_K), r"tl\.max\("),
            Slip("that of the first tile along K alone; does the loop go on?", lambda inputs: _scales(inputs, last=BLOCK_K)),
            Slip("without the last tile along K, of which only a part lies inside; where does range end?",
                 lambda inputs: _scales(inputs, last=2 * BLOCK_K), r"range\("),
            Slip("that of all rows of the tile; tl.max takes axis=1 to give each row its own", _of_tiles, r"tl\.max\("),
            Slip("1 for all rows but those of zeros; tl.where(condition, a, b) gives a where the condition holds",
                 lambda inputs: 1 - (tensor(inputs, "x_ptr") == 0).all(dim=1).float(), r"tl\.where"),
        ),
    ),
    Step(
        name="pack",
        function="pack",
        result="words",
        returns=PACKED,
        right="Eight numbers, one word. The bits do not overlap, so that a sum is as good as an OR.",
        look="q & 0xF keeps the lowest four bits, << 4 * i moves those of element i to their place, tl.sum(..., axis=1) joins them",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):
    words = pack(tl.load(q_ptr + tl.arange(0, {WORDS})[:, None] * 8 + tl.arange(0, 8)[None, :]))
{stored("words", PACKED)}""",
        inputs=lambda generator: {"q_ptr": _nibbles(generator)},
        expected=lambda inputs: _packed(tensor(inputs, "q_ptr")),
        slips=(
            Slip("the eight numbers in reverse order; element 0 is in the lowest four bits",
                 lambda inputs: _packed(tensor(inputs, "q_ptr").flip(1)), r"tl\.arange"),
            Slip(
                "spoilt by the bits that make a number negative; keep four bits of each with & 0xF",
                lambda inputs: (tensor(inputs, "q_ptr") << (4 * torch.arange(8, dtype=torch.int32))).sum(dim=1).to(torch.int32),
                r"<<",
            ),
            Slip("q & (0xF << ...), since << binds more tightly than &; put q & 0xF in brackets", _shifted_first, r"<<"),
        ),
    ),
    Step(
        name="unpack",
        function="unpack",
        result="q",
        returns=OPENED,
        right="And back, signs included. W4A16 is this and a product.",
        look="words[:, None] << 28 - 4 * i puts element i at the top of the word, and >> 28 brings it down with its sign",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):
    q = unpack(tl.load(words_ptr + tl.arange(0, {WORDS})))
{stored("q", OPENED)}""",
        inputs=lambda generator: {"words_ptr": _packed(_nibbles(generator))},
        expected=_unpacked,
        slips=(
            Slip("unsigned: -1 became 15; & 0xF alone drops the sign", lambda inputs: _unpacked(inputs) % 16, r"0xF|\b15\b"),
            Slip("in reverse order; element 0 is in the lowest four bits", lambda inputs: _unpacked(inputs).flip(1), r"tl\.arange"),
        ),
    ),
    Step(
        name="bsr",
        function="sparse_times_vector",
        result="y",
        right="Only blocks that are there were read, and the empty block row gave zeros without a special case.",
        look="block row r owns the blocks from crow_indices[r] up to, not with, crow_indices[r + 1]; block b meets the elements of x "
        "from BLOCK * col_indices[b] on; tl.sum(block * x[None, :], axis=1)",
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
            Slip("without the last block of each row", lambda inputs: _sparse(inputs, shorter=1), r"range\("),
            Slip("the last block of each row alone; is y added to, or replaced?", lambda inputs: _sparse(inputs, replaced=True)),
            Slip("with each block transposed: rows go down, and a row has BLOCK elements",
                 lambda inputs: _sparse(inputs, transposed=True), r"values_ptr"),
            Slip("with the first elements of x for every block; begin at BLOCK * col_indices[b]",
                 lambda inputs: _sparse(inputs, stride=0), r"x_ptr"),
            Slip("with elements of x from col_indices[b] on; it counts blocks, so multiply it by BLOCK",
                 lambda inputs: _sparse(inputs, stride=1), r"x_ptr"),
            Slip("with the blocks of the rows above too; begin at crow_indices[r]",
                 lambda inputs: _sparse(inputs, above=True), r"range\("),
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
                 lambda inputs: _product(inputs, last=2 * BLOCK_K), r"range\("),
            Slip("without the first tile along K; where does range begin?", lambda inputs: _product(inputs, first=BLOCK_K), r"range\("),
            Slip("the last tile along K alone; is acc added to, or replaced?", lambda inputs: _product(inputs, first=2 * BLOCK_K)),
            Slip("the first tile along K alone; does the loop go on up to K?", lambda inputs: _turns(inputs, 1, 0, 0), r"range\("),
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
        ),
    ),
)  # fmt: skip
