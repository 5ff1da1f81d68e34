import triton
import triton.language as tl
from triton.language import cdiv


@triton.jit
def signed(word, position: tl.constexpr):
    return (word << (28 - 4 * position)) >> 28


@triton.jit
def unpack(words):
    """int32 [N, W] -> fp16 [N, 8 W], nibbles in order."""
    n04 = tl.interleave(signed(words, 0), signed(words, 4))
    n26 = tl.interleave(signed(words, 2), signed(words, 6))
    n15 = tl.interleave(signed(words, 1), signed(words, 5))
    n37 = tl.interleave(signed(words, 3), signed(words, 7))
    even = tl.interleave(n04, n26)
    odd = tl.interleave(n37, n15)
    return tl.interleave(even, odd).to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=8, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    WORDS: tl.constexpr = BLOCK_K // 8
    pid = tl.program_id(0)
    m = (pid % cdiv(M, BLOCK_M)) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (pid // cdiv(M, BLOCK_M)) * BLOCK_N + tl.arange(0, BLOCK_N)
    scale = tl.load(scales_ptr + n, mask=n < N, other=0.0)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        w = k0 // 8 + tl.arange(0, WORDS)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        # words as [N, W], so that the last axis is the one to interleave along
        words = tl.load(qweight_ptr + n[:, None] * stride_wn + w[None, :] * stride_wk,
                        mask=(n[:, None] < N) & (w[None, :] < K // 8), other=0)
        wt = unpack(words) * scale[:, None]
        acc = tl.dot(x, tl.trans(wt), acc)

    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16),
             mask=(m[:, None] < M) & (n[None, :] < N))
