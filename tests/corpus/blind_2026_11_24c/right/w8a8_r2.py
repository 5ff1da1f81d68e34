"""Two column tiles a program share one quantised tile of X."""
import triton
import triton.language as tl


@triton.jit
def piece(ptr, k, n, K, N, sk, sn):
    return tl.load(ptr + k[:, None] * sk + n[None, :] * sn, mask=(k < K)[:, None] & (n < N)[None, :], other=0)


@triton.jit
def finish(y_ptr, acc, sm, scale_ptr, m, n, M, N, stride_ym, stride_yn):
    sn = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    y = (acc.to(tl.float32) * sn[None, :]) * sm[:, None]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32, "HALF_N": 32, "BLOCK_K": 64}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, HALF_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n_left = tl.program_id(0) * 2 * HALF_N + tl.arange(0, HALF_N)
    n_right = n_left + HALF_N
    sm = tl.load(input_scale_ptr + m, mask=m < M, other=1.0)
    left = tl.zeros((BLOCK_M, HALF_N), tl.int32)
    right = tl.zeros((BLOCK_M, HALF_N), tl.int32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        t = x.to(tl.float32) / sm[:, None]
        near = tl.floor(tl.abs(t) + 0.5)
        near = tl.where(t < 0, tl.maximum(-near, -128.0), tl.minimum(near, 127.0)).to(tl.int8)
        left = tl.dot(near, piece(qweight_ptr, k, n_left, K, N, stride_wk, stride_wn), left, out_dtype=tl.int32)
        right = tl.dot(near, piece(qweight_ptr, k, n_right, K, N, stride_wk, stride_wn), right, out_dtype=tl.int32)
    finish(y_ptr, left, sm, weight_scale_ptr, m, n_left, M, N, stride_ym, stride_yn)
    finish(y_ptr, right, sm, weight_scale_ptr, m, n_right, M, N, stride_ym, stride_yn)


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, 2 * meta["HALF_N"]), triton.cdiv(M, meta["BLOCK_M"]))
