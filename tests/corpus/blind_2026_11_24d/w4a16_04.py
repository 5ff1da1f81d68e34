"""W4A16, turned over (Y^T = W X^T), with the next tiles loaded ahead of time."""
import triton
import triton.language as tl


@triton.jit
def signed_nibbles(words, k):
    u = (words >> ((k % 8) * 4)) & 0x0F
    return (u - ((u & 8) << 1)).to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    m = pid % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    kk = tl.arange(0, BLOCK_K)
    xt_ptrs = x_ptr + kk[:, None] * stride_xk + m[None, :] * stride_xm
    wt_ptrs = qweight_ptr + n[:, None] * stride_wn + (kk // 8)[None, :] * stride_wk

    xt = tl.load(xt_ptrs, mask=(kk[:, None] < K) & (m[None, :] < M), other=0.0)
    wt = tl.load(wt_ptrs, mask=(n[:, None] < N) & (kk[None, :] < K), other=0)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for k in range(BLOCK_K, K, BLOCK_K):
        xt_ptrs += BLOCK_K * stride_xk
        wt_ptrs += BLOCK_K // 8 * stride_wk
        xt_next = tl.load(xt_ptrs, mask=(kk[:, None] < K - k) & (m[None, :] < M), other=0.0)
        wt_next = tl.load(wt_ptrs, mask=(n[:, None] < N) & (kk[None, :] < K - k), other=0)
        acc += tl.dot(signed_nibbles(wt, kk[None, :]), xt)
        xt = xt_next
        wt = wt_next

    s = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    out = (acc * s[:, None]).to(tl.float16)
    tl.store(y_ptr + n[:, None] * stride_yn + m[None, :] * stride_ym, out, mask=(n[:, None] < N) & (m[None, :] < M))
