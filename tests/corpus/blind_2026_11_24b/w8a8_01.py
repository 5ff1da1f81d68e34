"""W8A8, two-dimensional grid, everything kept as columns and rows."""
import torch
import triton
import triton.language as tl


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    row_ok, col_ok = rows < M, cols < N

    sx = tl.load(input_scale_ptr + rows, mask=row_ok, other=1.0)
    sw = tl.load(weight_scale_ptr + cols, mask=col_ok, other=0.0)

    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.int32)
    for k0 in range(0, K, BLOCK_K):
        ks = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows * stride_xm + ks[None, :] * stride_xk,
                    mask=row_ok & (ks[None, :] < K), other=0)
        w = tl.load(qweight_ptr + ks[:, None] * stride_wk + cols * stride_wn,
                    mask=(ks[:, None] < K) & col_ok, other=0)
        # round to nearest, clamp, then to int8
        q = x.to(tl.float32) / sx + 0.5
        q = tl.maximum(tl.minimum(q, 127.0), -128.0).to(tl.int8)
        acc = tl.dot(q, w, acc=acc, out_dtype=tl.int32)

    out = (acc.to(tl.float32) * (sx * sw)).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + rows * stride_ym + cols * stride_yn, out, mask=row_ok & col_ok)
