"""Without tl.dot: products are summed over K by tl.sum, a few rows at a time."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"ROWS": 4, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    kl = tl.arange(0, BLOCK_K)
    scale = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + kl
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(qweight_ptr + (k // 8)[:, None] * stride_wk + n[None, :] * stride_wn, mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        v = (w >> ((k & 7) * 4)[:, None]) & 0xF
        v = v - ((v & 8) << 1)
        prod = x.to(tl.float32)[:, :, None] * v.to(tl.float32)[None, :, :]
        y = (y + tl.sum(prod, axis=1)) * scale[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["ROWS"]), triton.cdiv(N, meta["BLOCK_N"]))
