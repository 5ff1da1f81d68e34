"""X taken apart by tl.split three times, so that slice i meets nibble i; eight dots, no gather of X in memory."""
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 1}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 256, "SPLIT_K": 1}, num_warps=4, num_stages=2),
]


@triton.jit
def halves(x):
    """[R, C] -> columns 0, 2, 4... and 1, 3, 5..."""
    return tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@triton.jit
def eighths(x):
    even, odd = halves(x)
    a, c = halves(even)
    b, d = halves(odd)
    a0, a1 = halves(a)
    b0, b1 = halves(b)
    c0, c1 = halves(c)
    d0, d1 = halves(d)
    return a0, b0, c0, d0, a1, b1, c1, d1


@triton.jit
def nibble(words, i: tl.constexpr):
    return ((words << (28 - 4 * i)) >> 28).to(tl.float16)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mm, nn = m < M, n < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in tl.range(0, K, BLOCK_K, loop_unroll_factor=2):
        k = k0 + tl.arange(0, BLOCK_K)
        j = k0 // 8 + tl.arange(0, BLOCK_K // 8)
        x = tl.load(x_ptr + m[:, None].to(tl.int64) * stride_xm + k[None, :].to(tl.int64) * stride_xk, mask=mm[:, None] & (k < K)[None, :], other=0.0)
        words = tl.load(qweight_ptr + j[:, None].to(tl.int64) * stride_wk + n[None, :].to(tl.int64) * stride_wn, mask=(j < K // 8)[:, None] & nn[None, :], other=0)
        parts = eighths(x)
        for i in tl.static_range(8):
            acc = tl.dot(parts[i], nibble(words, i), acc)
    acc *= tl.load(scales_ptr + n, mask=nn, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None].to(tl.int64) * stride_ym + n[None, :].to(tl.int64) * stride_yn, acc.to(tl.float16), mask=mm[:, None] & nn[None, :])
