import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=2),
                          triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4)], key=[])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    # read the words byte by byte: a byte holds two nibbles, element 2 * b in its low half
    bytes_ptr = qweight_ptr.to(tl.pointer_type(tl.int8))
    num_n = (N + BLOCK_N - 1) // BLOCK_N
    pm, pn = tl.program_id(0) // num_n, tl.program_id(0) % num_n
    m = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    half: tl.constexpr = BLOCK_K // 2
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        kk = k0 + tl.arange(0, BLOCK_K)
        b = k0 // 2 + tl.arange(0, half)
        addr = (b // 4)[:, None] * (stride_wk * 4) + n[None, :] * (stride_wn * 4) + (b % 4)[:, None]
        raw = tl.load(bytes_ptr + addr, mask=(b < K // 2)[:, None] & (n < N)[None, :], other=0)
        lo = raw & 0xF
        hi = raw >> 4
        q = tl.interleave(lo.trans(), hi.trans()).trans()
        x = tl.load(x_ptr + m[:, None] * stride_xm + kk[None, :] * stride_xk, mask=(m < M)[:, None] & (kk < K)[None, :], other=0.0)
        acc = tl.dot(x, q.to(tl.float16), acc)
    scale = tl.load(scales_ptr + n, mask=n < N, other=1.0).to(tl.float32)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, (acc * scale).to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
