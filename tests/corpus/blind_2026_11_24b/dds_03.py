"""A program makes a whole row of tiles: it walks all blocks and finds the block row of each by counting in crow_indices."""

import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 32, "ROWS": 64}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr, ROWS: tl.constexpr,
):
    """A program: BLOCK_M rows of X and all block rows. Y's tile is stored when the row of the next block is another one."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK)
    ok = (m < M)[:, None]
    yp = y_ptr + m[:, None].to(tl.int64) * stride_ym + c[None, :].to(tl.int64) * stride_yn
    block_rows = N // BLOCK
    nnz = tl.load(crow_indices_ptr + block_rows)
    row = block_rows * 0
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for b in range(0, nnz):
        # how many rows end before b: the row of b
        mine = block_rows * 0
        for r0 in range(0, block_rows, ROWS):
            r = r0 + tl.arange(0, ROWS)
            ends = tl.load(crow_indices_ptr + 1 + r, mask=r < block_rows, other=2147483647)
            mine += tl.sum((ends < b).to(tl.int32), 0)
        while row < mine:
            tl.store(yp + row * BLOCK * stride_yn, acc.to(tl.float16), mask=ok)
            acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
            row += 1
        k = tl.load(col_indices_ptr + b) * BLOCK + c
        x = tl.load(x_ptr + m[:, None].to(tl.int64) * stride_xm + k[None, :].to(tl.int64) * stride_xk, mask=ok, other=0.0)
        v = tl.load(values_ptr + b * (BLOCK * BLOCK) + c[None, :] * BLOCK + c[:, None])
        acc = tl.dot(x, v, acc)
    while row < block_rows:
        tl.store(yp + row * BLOCK * stride_yn, acc.to(tl.float16), mask=ok)
        acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
        row += 1


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]),)
