"""W4A16 with signed arithmetic on indices: divisions and remainders of negative numbers, `not`, `or`, a tuple from a helper."""
import triton
import triton.language as tl


@triton.jit
def split(index, size):
    # towards zero, as C does: -7 // 4 is -1 and -7 % 4 is -3
    return index // size, index % size


@triton.autotune([triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}), triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32})],
                 key=["M", "N", "K"])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a, b = split(-tl.program_id(0), tl.cdiv(N, BLOCK_N))
    m = -a * BLOCK_M + tl.arange(0, BLOCK_M)
    n = -b * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    k = tl.arange(0, BLOCK_K) - K
    turn = -(K // BLOCK_K) if K % BLOCK_K == 0 else -(K // BLOCK_K) - 1
    while not turn == 0:
        inside = (k < 0)
        back, nibble = split(-(k + K), 8)
        x = tl.load(x_ptr + m[:, None] * stride_xm + (k + K)[None, :] * stride_xk, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        word = tl.load(qweight_ptr - back[:, None] * stride_wk + n[None, :] * stride_wn, mask=inside[:, None] & (n[None, :] < N), other=0)
        q = (word >> (-4 * nibble)[:, None]) & 15
        q -= tl.where(q >= 8, 16, 0)
        acc += tl.dot(x, q.to(x.dtype))
        k += BLOCK_K
        turn += 1
    y = acc * tl.load(scales_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
