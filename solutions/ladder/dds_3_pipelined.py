"""DDS, step 3: tiles of X and blocks are fetched ahead, into shared memory.

Changes: num_stages > 1, so that the loads of later blocks are in flight while one is multiplied; tile by autotuning.
Predicted: a third off the time at 1024 tokens, where few programs hide each other's latency; less at 8192.
Measured, microseconds, cuBLAS fp16 in brackets: 1024 tokens at 0.9 7.17 (6.272); 1024 at 0.8 9.733 (6.3); 8192 at 0.9
16.95 (25.68); 8192 at 0.8 23.14 (25.77).
The other way round: a fifth to a third at 8192 tokens, where the tiles grew too, and 2 to 4 % at 1024. The index that
names a tile is itself a load, and nobody fetches it ahead: solutions/dds.py does, which is its last step.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 32}, num_warps=2, num_stages=4),
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 256}, num_warps=4, num_stages=2),
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
