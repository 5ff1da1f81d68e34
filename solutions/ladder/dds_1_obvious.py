"""DDS, step 1: a program owns 64 rows and one block row, and goes from block to block.

Changes: nothing yet; this is the kernel one writes first, and it is right. num_stages = 1: each block waits for its loads.
Predicted: every block costs two trips to memory, one for the column index and one for the tile of X it names.
With 3 blocks a block row that is about 3 us, so near cuBLAS fp16 at sparsity 0.9 and well behind it at 0.8.
Measured, microseconds, cuBLAS fp16 in brackets: 1024 tokens at 0.9 7.437 (6.274); 1024 at 0.8 10.05 (6.292); 8192 at
0.9 21.56 (25.66); 8192 at 0.8 33.89 (25.78).
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=1),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    block_row = tl.program_id(0) // tiles_m
    offs_m = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    first = tl.load(crow_indices_ptr + block_row)
    last = tl.load(crow_indices_ptr + block_row + 1)
    x_ptrs = x_ptr + row[:, None] * stride_xm + offs_b.to(tl.int64)[None, :] * stride_xk
    value_ptrs = values_ptr + first.to(tl.int64) * (BLOCK * BLOCK) + offs_b[:, None] + offs_b[None, :] * BLOCK

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(first, last):
        col = tl.load(col_indices_ptr + b)
        x = tl.load(x_ptrs + col.to(tl.int64) * BLOCK * stride_xk)
        block = tl.load(value_ptrs)
        acc = tl.dot(x, block, acc)
        value_ptrs += BLOCK * BLOCK

    offs_n = (block_row * BLOCK + offs_b).to(tl.int64)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(offs_m < M)[:, None])


def DDS_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of rows and each block row, all on axis 0."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32), 1)
