"""GPTQ, step 1: the published split-K kernel in our contract: tiles of 16 x 32, 128 deep, K split in four, three stages.

Changes: nothing yet. Every weight loads its own word; a tile takes one row of scales and of zero points, and computes
q s - (z + 1) s in fp16; tiles of Y go in groups of eight rows of tiles. Ours is what the contract asks for: masks, strides of Y, and tiles
in which several groups meet, of which each weight loads its own scale and zero point. The published kernel takes neither.
Predicted: behind cuBLAS fp16 with any number of tokens. A word is loaded eight times.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 18.3 (12.8); 16 18.5 (12.9); 64 62.7 (12.0).
As predicted: behind with any number, 1.4 times cuBLAS's time with few tokens; with 64 four rows of tiles each open every weight, and
it takes five times as long.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 128, "SPLIT_K": 4, "GROUP_M": 8}, num_warps=4, num_stages=3),
]


@triton.jit
def swizzle_tile(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of a program's tile: down GROUP_M tiles, then to the next column, so that these share what L2 holds."""
    width = GROUP_M * tl.cdiv(N, BLOCK_N)
    group = pid // width
    rows = tl.minimum(tl.cdiv(M, BLOCK_M) - group * GROUP_M, GROUP_M)
    return group * GROUP_M + pid % rows, pid % width // rows


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "group_size"], reset_to_zero=["y_ptr"])
@triton.heuristics({"ONE_GROUP": lambda args: args["group_size"] % args["BLOCK_K"] == 0})
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
    GROUP_M: tl.constexpr, ONE_GROUP: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = swizzle_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    row, n = offs_m.to(tl.int64), offs_n.to(tl.int64)
    in_m, in_n = offs_m < M, offs_n < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(tl.program_id(1) * BLOCK_K, K, BLOCK_K * SPLIT_K):
        k = first + offs_k
        in_w = (k < K)[:, None] & in_n[None, :]
        x_ptrs = x_ptr + row[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=in_m[:, None] & (k < K)[None, :], other=0.0)
        w_ptrs = qweight_ptr + (k // 8).to(tl.int64)[:, None] * stride_wk + n[None, :] * stride_wn
        q = (tl.load(w_ptrs, mask=in_w, other=0) >> (4 * (k % 8))[:, None]) & 0xF

        if ONE_GROUP:
            g = (first // group_size).to(tl.int64)
            scales = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=in_n, other=0.0)[None, :]
            zeros = tl.load(zeros_ptr + g * stride_zg + n // 8 * stride_zn, mask=in_n, other=0)[None, :]
        else:
            g = (k // group_size).to(tl.int64)[:, None]
            scales = tl.load(scales_ptr + g * stride_sg + n[None, :] * stride_sn, mask=in_w, other=0.0)
            zeros = tl.load(zeros_ptr + g * stride_zg + (n // 8)[None, :] * stride_zn, mask=in_w, other=0)
        zeros = (((zeros >> (4 * (offs_n % 8))[None, :]) & 0xF) + 1) * scales
        acc += tl.dot(x, q * scales - zeros)
    y = acc.to(tl.float16)
    y_ptrs = y_ptr + row[:, None] * stride_ym + n[None, :] * stride_yn
    inside = in_m[:, None] & in_n[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="release")


def GPTQ_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
