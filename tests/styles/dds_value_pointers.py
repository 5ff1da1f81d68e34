import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 16}, num_warps=2, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid = tl.program_id(0)
    block_rows = N // BLOCK
    brow = pid % block_rows
    pid_m = pid // block_rows
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    start = tl.load(crow_indices_ptr + brow)
    end = tl.load(crow_indices_ptr + brow + 1)
    v_ptrs = values_ptr + start * BLOCK * BLOCK + offs_b[:, None] * BLOCK + offs_b[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(start, end):
        col = tl.load(col_indices_ptr + b)
        offs_k = col * BLOCK + offs_b
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk, mask=offs_m[:, None] < M, other=0.0)
        v = tl.load(v_ptrs)
        acc += tl.dot(x, tl.trans(v))
        v_ptrs += BLOCK * BLOCK
    offs_n = brow * BLOCK + offs_b
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, acc.to(tl.float16), mask=offs_m[:, None] < M)


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32),)
