"""fp16 from bits: 0x6400 | u is 1024 + u. Elements j and j + 4 of a word sit in the two halves of it."""
import triton
import triton.language as tl


@triton.jit
def halves(words, i: tl.constexpr):
    t = ((words >> (4 * i)) & 0x000F000F) ^ 0x64086408
    lo = (t & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True) - 1032.0
    hi = (t >> 16).to(tl.int16).to(tl.float16, bitcast=True) - 1032.0
    return lo, hi


@triton.jit
def eight(words, WORDS: tl.constexpr, BN: tl.constexpr):
    e0, e4 = halves(words, 0)
    e1, e5 = halves(words, 1)
    e2, e6 = halves(words, 2)
    e3, e7 = halves(words, 3)
    even = tl.join(tl.join(e0, e4), tl.join(e2, e6))
    odd = tl.join(tl.join(e1, e5), tl.join(e3, e7))
    full = tl.join(even, odd)  # [words, n, half, pair, low bit]
    full = tl.permute(full, (0, 4, 3, 2, 1))
    return tl.reshape(full, (WORDS * 8, BN))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    WORDS: tl.constexpr = BLOCK_K // 8
    pid = tl.program_id(0)
    pid_k = tl.program_id(1)
    num_n = tl.cdiv(N, BLOCK_N)
    om = pid // num_n * BLOCK_M + tl.arange(0, BLOCK_M)
    on = pid % num_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ok = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    oj = pid_k * WORDS + tl.arange(0, WORDS)
    px = x_ptr + om[:, None] * stride_xm + ok[None, :] * stride_xk
    pw = qweight_ptr + oj[:, None] * stride_wk + on[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K * SPLIT_K):
        x = tl.load(px, mask=(om[:, None] < M) & (ok[None, :] < K - k), other=0.0)
        words = tl.load(pw, mask=(oj[:, None] < (K - k) // 8) & (on[None, :] < N), other=0)
        acc = tl.dot(x, eight(words, WORDS, BLOCK_N), acc)
        px += BLOCK_K * SPLIT_K * stride_xk
        pw += WORDS * SPLIT_K * stride_wk
    s = tl.load(scales_ptr + on, mask=on < N, other=0.0)
    y = (acc * s[None, :]).to(tl.float16)
    py = y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn
    inside = (om[:, None] < M) & (on[None, :] < N)
    if SPLIT_K == 1:
        tl.store(py, y, mask=inside)
    else:
        tl.atomic_add(py, y, mask=inside)
