"""triton.cdiv and triton.next_power_of_2 inside the kernel: with constexprs Triton computes them while compiling."""

import triton
import triton.language as tl
from triton import cdiv, next_power_of_2

WORD = tl.constexpr(8)
CONFIGS = [triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": k, "SPLIT_K": 1}, num_warps=4) for k in (32, 64)]


@triton.jit
def opened(words, BLOCK_K: tl.constexpr):
    """int32 [BLOCK_K / 8, N] -> fp16 [BLOCK_K, N]."""
    SHIFTS: tl.constexpr = next_power_of_2(WORD)
    q = (words[:, None, :] << (28 - 4 * tl.arange(0, SHIFTS))[None, :, None]) >> 28
    return tl.reshape(q, (cdiv(BLOCK_K, WORD) * WORD, words.shape[1])).to(tl.float16)


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
    WORDS: tl.constexpr = triton.cdiv(BLOCK_K, 8)
    tl.static_assert(triton.next_power_of_2(WORDS) == WORDS)
    m = (tl.program_id(0) // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    n = (tl.program_id(0) % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    in_n = (n < N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        j = step * WORDS + tl.arange(0, WORDS)
        x_ptrs = x_ptr + m[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w_ptrs = qweight_ptr + j.to(tl.int64)[:, None] * stride_wk + n[None, :] * stride_wn
        words = tl.load(w_ptrs, mask=(j < K // 8)[:, None] & in_n, other=0)
        acc = tl.dot(x, opened(words, BLOCK_K), acc)
    y = acc * tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m < M)[:, None] & in_n)
