"""W8A16, step 2: no matrix instruction. One row of X per program, an elementwise product, one sum along K per iteration.

Changes: the program of one token multiplies that token and nothing else, and has 32 columns instead of 64, so that there are
twice as many programs.
Predicted: with 1 token ahead of step 1. Each iteration still loads a few bytes per thread, and waits for them, before it sums among
threads. With 16 and 512 tokens far behind: every row of X reads the whole weight again.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 80.85 (12.83); 16 109.6 (12.99); 512 3140 (25.45).
Wrong with 1 token: a quarter slower than step 1. An iteration takes 16 of K, so there are 256 of them, each with loads that are waited for
and a sum among threads, and twice as many programs do not make up for it.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 1, "BLOCK_N": 32, "BLOCK_K": 16}, num_warps=4),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_M == 1, "a program makes a part of one row of Y")
    pid = tl.program_id(0)
    row = (pid // tl.cdiv(N, BLOCK_N)).to(tl.int64)
    offs_n = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    in_n = offs_n < N
    x_ptrs = x_ptr + row * stride_xm + offs_k.to(tl.int64) * stride_xk
    w_ptrs = qweight_ptr + offs_k[:, None] * stride_wk + offs_n.to(tl.int64)[None, :] * stride_wn
    acc = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        in_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=in_k, other=0.0).to(tl.float32)
        q = tl.load(w_ptrs, mask=in_k[:, None] & in_n[None, :], other=0).to(tl.float32)
        acc += tl.sum(x[:, None] * q, axis=0)
        x_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_xk
        w_ptrs += BLOCK_K * stride_wk
    scales = tl.load(scales_ptr + offs_n, mask=in_n, other=0.0).to(tl.float32)
    y_ptrs = y_ptr + row * stride_ym + offs_n.to(tl.int64) * stride_yn
    tl.store(y_ptrs, (acc * scales).to(tl.float16), mask=in_n)


def W8A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
