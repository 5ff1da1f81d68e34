"""DDS, step 2: block rows run fastest over the program ids.

Changes: the 32 programs that gather from the same rows of X run at the same time, not 1/32 of a launch apart.
Predicted: X comes from DRAM once. But X is 17 MB at 8192 tokens and stays in an L2 of 60 MB in either order, so
5 % there and nothing at 1024; more on a GPU with a smaller L2.
Measured, microseconds, cuBLAS fp16 in brackets: 1024 tokens at 0.9 7.333 (6.274); 1024 at 0.8 9.796 (6.292); 8192 at
0.9 21.42 (25.62); 8192 at 0.8 33.58 (25.74).
2 % at most: the L2 of this GPU holds all of X, so the order hardly matters.
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
    # Block rows run fastest: programs that run at the same time gather from the same rows of X.
    block_rows = N // BLOCK
    block_row = tl.program_id(0) % block_rows
    offs_m = tl.program_id(0) // block_rows * BLOCK_M + tl.arange(0, BLOCK_M)
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
