"""W4A16 with a form of its own for a single token: no tl.dot there, only a sum along K."""
import triton
import triton.language as tl


@triton.jit
def nibble(word, i):
    v = (word >> (4 * i)) & 0xF
    return v - 16 * (v // 8)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
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
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_row = tl.program_id(0) // tiles_n * BLOCK_M
    n = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    if M == 1:
        row = tl.zeros((BLOCK_N,), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            ok = k0 + k < K
            x = tl.load(x_ptr + (k0 + k) * stride_xk, mask=ok, other=0.0)
            word = tl.load(qweight_ptr + ((k0 + k) // 8)[:, None] * stride_wk + n[None, :] * stride_wn, mask=ok[:, None] & (n < N)[None, :], other=0)
            q = nibble(word, (k % 8)[:, None])
            row += tl.sum(x[:, None] * q.to(tl.float16), axis=0)
        tl.store(y_ptr + n * stride_yn, (row * s).to(tl.float16), mask=n < N)
    else:
        m = first_row + tl.arange(0, BLOCK_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            ok = k0 + k < K
            xs = tl.load(x_ptr + m[:, None] * stride_xm + (k0 + k)[None, :] * stride_xk, mask=(m < M)[:, None] & ok[None, :], other=0.0)
            word = tl.load(qweight_ptr + ((k0 + k) // 8)[:, None] * stride_wk + n[None, :] * stride_wn, mask=ok[:, None] & (n < N)[None, :], other=0)
            acc = tl.dot(xs, nibble(word, (k % 8)[:, None]).to(tl.float16), acc)
        y = (acc * s[None, :]).to(tl.float16)
        tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None] & (n < N)[None, :])
