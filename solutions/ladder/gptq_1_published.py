"""GPTQ, step 1: the form of the published kernel: tiles of 16 x 32, 128 deep, K split in four.

Changes: nothing yet. Every element loads its own word, its own scale and its own word of zeros, as in the kernels that
went with the first GPTQ checkpoints. One thing differs: those make q s and (z + 1) s in fp16, this one in fp32.
Predicted: behind cuBLAS fp16 with any number of tokens. A word is loaded eight times, a word of zeros 128 times.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 144.9 (12.85); 16 144.2 (12.95); 64 560.7 (12.57).
As predicted: eleven times cuBLAS fp16's time with 1 or 16 tokens, 47 times with 64, where four row tiles each read all words.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "group_size"], reset_to_zero=["y_ptr"])
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr,
    M, N, K, group_size,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_sg, stride_sn,
    stride_zg, stride_zn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs_m = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    n = offs_n.to(tl.int64)
    in_n = offs_n < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(tl.program_id(1) * BLOCK_K, K, BLOCK_K * SPLIT_K):
        k = first + offs_k
        in_w = (k < K)[:, None] & in_n[None, :]
        x_ptrs = x_ptr + row[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=(k < K)[None, :], other=0.0)
        w_ptrs = qweight_ptr + (k // 8).to(tl.int64)[:, None] * stride_wk + n[None, :] * stride_wn
        q = (tl.load(w_ptrs, mask=in_w, other=0) >> (4 * (k % 8))[:, None]) & 0xF

        g = (k // group_size).to(tl.int64)
        s_ptrs = scales_ptr + g[:, None] * stride_sg + n[None, :] * stride_sn
        scales = tl.load(s_ptrs, mask=in_w, other=0.0).to(tl.float32)
        z_ptrs = zeros_ptr + g[:, None] * stride_zg + (n // 8)[None, :] * stride_zn
        zeros = (tl.load(z_ptrs, mask=in_w, other=0) >> (4 * (offs_n % 8))[None, :]) & 0xF
        zeros = (zeros + 1).to(tl.float32) * scales
        acc += tl.dot(x, (q.to(tl.float32) * scales - zeros).to(tl.float16))
    y = acc.to(tl.float16)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & in_n[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")


def GPTQ_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
