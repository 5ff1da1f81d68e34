import triton
import triton.language as tl


@triton.jit
def _add(a, b):
    return a + b


@triton.autotune(configs=[triton.Config({"BLOCK_N": 16, "BLOCK_K": 64}, num_warps=4), triton.Config({"BLOCK_N": 16, "BLOCK_K": 256}, num_warps=8)], key=["N", "K"])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """One token a program on axis 1, words as [N, words, 8], reduced with a function of my own."""
    WORDS: tl.constexpr = BLOCK_K // 8
    token = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    j = tl.arange(0, WORDS)
    i = tl.arange(0, 8)
    total = tl.zeros((BLOCK_N, WORDS), tl.float32)
    for k in range(0, K, BLOCK_K):
        jj = k // 8 + j
        w = tl.load(qweight_ptr + jj[None, :] * stride_wk + n[:, None] * stride_wn, mask=(jj < K // 8)[None, :] & (n < N)[:, None], other=0)
        bits = w.to(tl.uint32, bitcast=True)
        q = (bits[:, :, None] << (28 - 4 * i)[None, None, :]) >> 28
        kk = jj[:, None] * 8 + i[None, :]
        x = tl.load(x_ptr + token * stride_xm + kk * stride_xk, mask=kk < K, other=0.0)
        total += tl.sum(q.to(tl.float32) * x[None, :, :].to(tl.float32), axis=2)
    y = tl.reduce(total, 1, _add)
    y *= tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + token * stride_ym + n * stride_yn, y.to(tl.float16), mask=n < N)


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), M)
