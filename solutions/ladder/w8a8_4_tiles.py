"""W8A8, step 4: tiles that fit the work, in an order that fits L2.

Changes: wide tiles, because X is quantised again by every program that shares its rows; programs that run at the
same time take eight row tiles by all columns; the tile size is left to autotuning.
Predicted: a quarter of the quantising with BLOCK_N = 256, so level with cuBLAS fp16 for 4096 tokens. Nothing
changes for 16 tokens: 64 programs cannot fill 132 multiprocessors.
Measured, microseconds, cuBLAS fp16 in brackets: 16 tokens 29.39 (12.72); 512 31.93 (24.99); 4096 178.6 (179.5).
Level with it at 4096. At 16 it was wrong: half as many programs, but tiles twice as wide and steps twice as deep, so
each has four times the bytes of weight in flight. What solutions/w8a8.py adds last: for few tokens the weight on the
row side of the product, and split-K; for many a clamp of two fp16 values at a time, and the weight by descriptor. It
drops the order again: of 4096 tokens, 16 row tiles by all columns run at a time anyway, and it was 2 % slower with it.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 256, "BLOCK_K": 64}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128}, num_warps=8, num_stages=3),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    GROUP: tl.constexpr = 8
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP * tiles_n) * GROUP
    group_m = tl.minimum(tiles_m - first_m, GROUP)
    pid_in_group = pid % (GROUP * tiles_n)
    offs_m = (first_m + pid_in_group % group_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    col = tl.minimum(offs_n, N - 1).to(tl.int64)
    x_ptrs = x_ptr + row[:, None] * stride_xm + offs_k.to(tl.int64)[None, :] * stride_xk
    w_ptrs = qweight_ptr + offs_k.to(tl.int64)[:, None] * stride_wk + col[None, :] * stride_wn
    input_scale = tl.load(input_scale_ptr + row)
    weight_scale = tl.load(weight_scale_ptr + col)
    # One exact division per row; 1.5 * 2^23 pushes the fraction out of the mantissa and rounds on the way.
    ROUND: tl.constexpr = 12582912.0
    inverse_scale = tl.div_rn(tl.full((BLOCK_M,), 1.0, tl.float32), input_scale)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        in_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=in_k[None, :], other=0.0).to(tl.float32)
        w = tl.load(w_ptrs, mask=in_k[:, None], other=0)
        t = x * inverse_scale[:, None] + ROUND
        t = tl.minimum(tl.maximum(t, ROUND - 128.0), ROUND + 127.0)
        q = t.to(tl.int32, bitcast=True).to(tl.int8)
        acc = tl.dot(q, w, acc, out_dtype=tl.int32)
        x_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_xk
        w_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_wk
    y = (acc.to(tl.float32) * input_scale[:, None] * weight_scale[None, :]).to(tl.float16)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    tl.store(y_ptrs, y, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def W8A8_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
