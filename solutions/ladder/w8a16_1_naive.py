"""W8A16, step 1: a tile of 64 x 64 for every size, its product by tl.dot.

Changes: nothing yet; this is the kernel one writes first, and it is right. With one token 63 rows of its tile are nothing.
Predicted: behind cuBLAS fp16 everywhere. With 1 and 16 tokens 64 programs read the weight, fewer than half of 132
multiprocessors; with 512 the converted weight goes through shared memory, which fp16's does not have to.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 63.34 (12.84); 16 53.21 (12.97); 512 67.44 (25.29).
As predicted: a fifth of cuBLAS fp16's speed with few tokens, three eighths with 512.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
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
    pid = tl.program_id(0)
    offs_m = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    in_n = offs_n < N
    scales = tl.load(scales_ptr + offs_n, mask=in_n, other=0.0).to(tl.float32)
    x_ptrs = x_ptr + row[:, None] * stride_xm + offs_k.to(tl.int64)[None, :] * stride_xk
    w_ptrs = qweight_ptr + offs_k[:, None] * stride_wk + offs_n.to(tl.int64)[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        in_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=in_k[None, :], other=0.0)
        q = tl.load(w_ptrs, mask=in_k[:, None] & in_n[None, :], other=0)
        acc = tl.dot(x, q.to(tl.float16), acc)
        x_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_xk
        w_ptrs += BLOCK_K * stride_wk
    y = (acc * scales[None, :]).to(tl.float16)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    tl.store(y_ptrs, y, mask=(offs_m < M)[:, None] & in_n[None, :])


def W8A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
