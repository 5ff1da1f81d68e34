import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 2, "BLOCK_N": 64, "BLOCK_K": 16})], key=["M", "N", "K"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    n_tiles = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    m = (pid // n_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None, None]
    n = (pid % n_tiles) * BLOCK_N + tl.arange(0, BLOCK_N)[None, None, :]
    kk = tl.arange(0, BLOCK_K)[None, :, None]
    acc = tl.zeros((BLOCK_M, BLOCK_K, BLOCK_N), tl.float32)  # summed over its middle at the end only
    for k0 in range(0, K, BLOCK_K):
        k = k0 + kk
        x = tl.load(x_ptr + m * stride_xm + k * stride_xk, (m < M) & (k < K), 0.0)
        w = tl.load(qweight_ptr + kk * stride_wk + n * stride_wn, (k < K) & (n < N), 0)
        acc += x.to(tl.float32) * w.to(tl.float32)
    y = tl.sum(acc, axis=1)
    m2 = (pid // n_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n2 = (pid % n_tiles) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    y *= tl.load(scales_ptr + n2, n2 < N, 0.0)
    tl.store(y_ptr + m2 * stride_ym + n2 * stride_yn, y.to(tl.float16), (m2 < M) & (n2 < N))
