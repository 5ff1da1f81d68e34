import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 32}, num_warps=4)]


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
    n_rows = N // BLOCK
    row = pid % n_rows
    pm = pid // n_rows
    om = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    ob = tl.arange(0, BLOCK)
    lo = tl.load(crow_indices_ptr + row)
    hi = tl.load(crow_indices_ptr + row + 1)
    acc = tl.zeros((BLOCK, BLOCK_M), dtype=tl.float32)
    b = lo
    while b < hi:
        kcol = tl.load(col_indices_ptr + b)
        # x tile read as [BLOCK, BLOCK_M]
        xt = tl.load(x_ptr + (kcol * BLOCK + ob)[:, None] * stride_xk + om[None, :] * stride_xm, mask=om[None, :] < M, other=0.0)
        v = tl.load(values_ptr + b * (BLOCK * BLOCK) + ob[:, None] * BLOCK + ob[None, :])
        acc = tl.dot(v, xt, acc)
        b += 1
    on = row * BLOCK + ob
    tl.store(y_ptr + on[:, None] * stride_yn + om[None, :] * stride_ym, acc.to(tl.float16), mask=om[None, :] < M)


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32), 1)
