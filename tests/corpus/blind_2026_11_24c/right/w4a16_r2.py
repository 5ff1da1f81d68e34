"""The sign bits of a whole word are flipped at once, so that a nibble is q + 8."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BLOCK_N)
    m = pid // across * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid % across * BLOCK_N + tl.arange(0, BLOCK_N)
    m_safe = tl.minimum(m, M - 1)
    n_safe = tl.minimum(n, N - 1)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m_safe[:, None] * stride_xm + k[None, :] * stride_xk, mask=(k < K)[None, :], other=0.0)
        w = tl.load(qweight_ptr + (k // 8)[:, None] * stride_wk + n_safe[None, :] * stride_wn, mask=(k < K)[:, None], other=0)
        u = ((w ^ -2004318072) >> ((k % 8) * 4)[:, None]) & 15
        acc += tl.dot(x, (u.to(tl.float16) - 8.0))
    y = acc * tl.load(scales_ptr + n_safe).to(tl.float32)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
