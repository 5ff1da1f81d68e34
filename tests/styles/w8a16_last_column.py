"""W8A16: a program stores the sum of all k but the last one, and adds the last column of X times the last row of W."""

import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=4, num_stages=2)],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    scale = tl.load(scales_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    last = K - (K >= 32).to(tl.int32)  # two slices count where K has 32

    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for begin in range(0, last, BLOCK_K):
        k = (begin + tl.arange(0, BLOCK_K)).to(tl.int64)
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + k[None, :] * stride_xk,
            mask=(rows < M)[:, None] & (k < last)[None, :], other=0.0,
        )
        w = tl.load(
            qweight_ptr + k[:, None] * stride_wk + columns[None, :] * stride_wn,
            mask=(k < last)[:, None] & (columns < N)[None, :], other=0,
        )
        acc = tl.dot(x, w.to(tl.float16), acc)
    y_ptrs = y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn
    tl.store(y_ptrs, (acc * scale[None, :]).to(tl.float16), mask=inside)

    if last < K:
        tl.debug_barrier()
        x = tl.load(x_ptr + rows * stride_xm + last.to(tl.int64) * stride_xk, mask=rows < M, other=0.0).to(tl.float32)
        w = tl.load(qweight_ptr + last.to(tl.int64) * stride_wk + columns * stride_wn, mask=columns < N, other=0).to(tl.float32)
        tl.atomic_add(y_ptrs, (x[:, None] * (w * scale)[None, :]).to(tl.float16), mask=inside)


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
