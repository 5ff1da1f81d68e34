"""The warm-ups of the opening, in its order: add, masks, strides, a transpose, row scales, int4 words, BSR, a tiled product. No points.

No size is a multiple of a tile, and no stride is what one would guess.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from grader.labs.inputs import pack_int4, unpack_int4
from grader.labs.notebook_step import Inputs, Step, apart, normal, padded, stored, sum_tolerance, tensor

BLOCK = 16
N = 3 * BLOCK - 7
ROWS, COLUMNS = 16, 32
M_TALL, K_LONG, N_WIDE, BLOCK_K = 21, 80, 40, 32
TILE = f"fp16 [{ROWS}, {COLUMNS}]"
WORDS = 16
PACKED, UNPACKED = f"int32 [{WORDS}]", f"int32 [{WORDS}, 8]"
CROW, COL = (0, 2, 2, 5, 6), (1, 3, 0, 2, 3, 1)
"""A weight of 4 x 4 blocks: block rows with 2, 0, 3 and 1 blocks."""


def _strided_matrix(generator: torch.Generator, rows: int, columns: int) -> torch.Tensor:
    """fp16 [rows, columns], every other column of a wider matrix."""
    return apart(normal(generator, rows, columns).to(torch.float16))


def _with_strides(x: torch.Tensor) -> Inputs:
    return {"x_ptr": x, "stride_row": x.stride(0), "stride_column": x.stride(1)}


def _vectors(generator: torch.Generator, size: int) -> Inputs:
    return {name: normal(generator, size) for name in ("x_ptr", "y_ptr")}


def _masked_inputs(generator: torch.Generator) -> Inputs:
    x = _strided_matrix(generator, ROWS - 3, COLUMNS - 5)
    return {**_with_strides(x), "row_count": ROWS - 3, "column_count": COLUMNS - 5}


def _transpose_inputs(generator: torch.Generator) -> Inputs:
    return {**_with_strides(_strided_matrix(generator, M_TALL, N - BLOCK)), "M": M_TALL, "N": N - BLOCK}


def _scales_inputs(generator: torch.Generator) -> Inputs:
    """The largest of a row is negative in every other row and lies in another tile from row to row; every seventh row is zero."""
    x = _strided_matrix(generator, M_TALL, K_LONG)
    row = torch.arange(M_TALL)
    x[row, (31 * row) % K_LONG] = (5.0 + row % 4).to(torch.float16) * torch.where(row % 2 == 0, -1, 1)
    x[::7] = 0
    return {**_with_strides(x), "M": M_TALL, "K": K_LONG}


def _scales(inputs: Inputs) -> torch.Tensor:
    """fp32 [M]: largest magnitude by 127; 1 for a row of zeros."""
    scale = tensor(inputs, "x_ptr").float().abs().amax(dim=1) / 127
    return torch.where(scale == 0, 1.0, scale)


def _nibbles(generator: torch.Generator) -> torch.Tensor:
    """int32 [WORDS, 8] of -8 to 7; the first word holds each of the lower half, the second of the upper."""
    q = torch.randint(-8, 8, (WORDS, 8), generator=generator)
    q[0], q[1] = torch.arange(-8, 0), torch.arange(0, 8)
    return q.to(torch.int32)


def _packed(q: torch.Tensor) -> torch.Tensor:
    return pack_int4(q.reshape(-1, 1)).view(WORDS)


def _unpacked(inputs: Inputs) -> torch.Tensor:
    return unpack_int4(tensor(inputs, "words_ptr")[:, None]).view(WORDS, 8)


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
        name="add",
        function="add",
        result="out",
        right="Three programs, each with sixteen elements of its own. That is all there is to a grid.",
        hint="the number of the program says where its elements begin; each is loaded from x and from y, added, and stored to out",
        code="a program's elements are tl.program_id(0) * BLOCK + tl.arange(0, BLOCK); load both, add, store",
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
        hint="the last program has lanes beyond the end, and both loads and the store need a mask that leaves them out",
        code="at < n is a mask; give it to both loads and to the store",
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
        hint="a row number times the row's stride, plus a column number times the column's: one runs down, the other across",
        code="element (i, j) lies at ptr + rows[i] * stride_row + columns[j] * stride_column; `[:, None]` and `[None, :]` spread the two",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, out_ptr):
    rows, columns = tl.arange(0, {ROWS}), tl.arange(0, {COLUMNS})
    tile = load_strided(x_ptr, rows, columns, stride_row, stride_column)
{stored("tile", TILE)}""",
        inputs=lambda generator: _with_strides(_strided_matrix(generator, ROWS, COLUMNS)),
        expected=lambda inputs: tensor(inputs, "x_ptr").contiguous(),
    ),
    Step(
        name="masks",
        function="load_tile",
        result="tile",
        returns=TILE,
        right="Two axes, two ends, one mask. You will use this function in every lab.",
        hint="a row and a column each have their own end: two comparisons, one down and one across, joined into one mask; what "
        "it leaves out counts as zero",
        code="mask=(rows < row_count)[:, None] & (columns < column_count)[None, :], and other=0 for what is left out",
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
        hint="the store's addresses are those of y, whose rows have M elements; its mask is that of the load",
        code="element (i, j) of the tile goes to y_ptr + columns[j] * M + rows[i], since row n of y has M elements; the mask of "
        "the store is that of the load",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, N, out_ptr):
    transpose(x_ptr, out_ptr, M, N, stride_row, stride_column, {BLOCK})
""",
        grid=(2, 2, 1),
        inputs=_transpose_inputs,
        expected=lambda inputs: tensor(inputs, "x_ptr").t().contiguous(),
    ),
    Step(
        name="scales",
        function="row_scales",
        result="scale",
        right="This is the kernel that computes input_scale for W8A8: one number per row, by which X is divided.",
        hint="keep one maximum of magnitudes for each row from tile to tile; divide once, at the end, and think of the rows of zeros",
        code="keep a vector of BLOCK_M maxima that begins with zeros; for each tile along K take tl.maximum of it and "
        "tl.max(tl.abs(tile), axis=1); at the end divide by 127, and let tl.where put 1 where the maximum is 0",
        harness=f"""
@triton.jit
def harness(x_ptr, stride_row, stride_column, M, K, out_ptr):
    row_scales(x_ptr, out_ptr, M, K, stride_row, stride_column, {BLOCK}, {BLOCK_K})
""",
        grid=(2, 1, 1),
        inputs=_scales_inputs,
        expected=_scales,
        tolerance=lambda inputs: _scales(inputs).double() * 1e-6,
    ),
    Step(
        name="pack",
        function="pack",
        result="words",
        returns=PACKED,
        right="Eight numbers, one word. The bits do not overlap, so that a sum is as good as an OR.",
        hint="keep the lowest four bits of each number, move them to their own place in the word, then join the eight",
        code="q & 0xF keeps the lowest four bits, << 4 * i moves those of element i to their place, tl.sum(..., axis=1) joins them",
        harness=f"""
@triton.jit
def harness(q_ptr, out_ptr):
    words = pack(tl.load(q_ptr + tl.arange(0, {WORDS})[:, None] * 8 + tl.arange(0, 8)[None, :]))
{stored("words", PACKED)}""",
        inputs=lambda generator: {"q_ptr": _nibbles(generator)},
        expected=lambda inputs: _packed(tensor(inputs, "q_ptr")),
    ),
    Step(
        name="unpack",
        function="unpack",
        result="q",
        returns=UNPACKED,
        right="And back, signs included. W4A16 is this and a product.",
        hint="how far the element's top bit is from the word's depends on the element; a shift to the right copies the sign on "
        "the way back",
        code="words[:, None] << 28 - 4 * i puts element i at the top of the word, and >> 28 brings it down with its sign",
        harness=f"""
@triton.jit
def harness(words_ptr, out_ptr):
    q = unpack(tl.load(words_ptr + tl.arange(0, {WORDS})))
{stored("q", UNPACKED)}""",
        inputs=lambda generator: {"words_ptr": _packed(_nibbles(generator))},
        expected=_unpacked,
    ),
    Step(
        name="bsr",
        function="sparse_times_vector",
        result="y",
        right="Only blocks that are there were read, and the empty block row gave zeros without a special case.",
        hint="which blocks are this block row's, and which elements of x is each of them multiplied by? A row of a block is "
        "multiplied by all of these and summed",
        code="block row r owns the blocks from crow_indices[r] up to, but not including, crow_indices[r + 1]; block b is "
        "multiplied by the elements of x from BLOCK * col_indices[b] on; tl.sum(block * x[None, :], axis=1)",
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
        hint="rows and columns follow from the number of the program; the tiles of X and W move along K together; W is stored as "
        "[N, K] and read as [K, N]; the store has a mask",
        code="rows and columns of the tile from pid; in the loop x is load_tile(x_ptr, rows, depth, M, K, K, 1), and w, read as "
        "[K, N], load_tile(w_ptr, depth, columns, K, N, 1, K); acc is fp32, y fp16; the store has a mask",
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
