"""W8A16, step 5: one kernel for every number of tokens, the weight on the side that comes from registers, opened by bits.

Changes: Y^T = W X^T. wgmma takes its first operand from registers and its second from shared memory only, so the
converted weight, twice the bytes of the stored one, makes no trip through shared memory. A byte becomes fp16 by moving
bits instead of a conversion.
Predicted: with 16 tokens and with 512 a third off step 4. What solutions/w8a16.py adds is a search for tiles.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 8.203 (12.82); 16 9.168 (12.98); 512 43.81 (25.28).
Less than predicted: a ninth with 16 tokens, a sixth with 512. The search for tiles then gave another fifth with 512
(256 x 128 by eight warps) and a twentieth with 1 (fewer columns, fewer warps).
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 1, "BLOCK_N": 16, "BLOCK_K": 512, "SPLIT_K": 1}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 1}, num_warps=4, num_stages=5),
]


@triton.jit
def open_bytes(q):
    """int8 of any shape -> the same numbers in fp16."""
    # 0x6400 | u is 1024 + u in fp16; flipping the byte's sign bit makes u = q + 128.
    return ((q.to(tl.int16) & 0xFF) ^ 0x6480).to(tl.float16, bitcast=True) - 1152.0


@triton.jit
def sum_for_one(x_ptr, w_ptr, offs_n, N, K, stride_xk, stride_wn, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """One token: fp32 [BLOCK_N, 1] of x q, element by element. x_ptr: its row of X."""
    rk = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + rk.to(tl.int64) * stride_xk
    w_ptrs = w_ptr + offs_n.to(tl.int64)[:, None] * stride_wn + rk[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=4):  # without tl.dot, only a loop that says so is pipelined
        x = tl.load(x_ptrs, mask=rk < K - k, other=0.0)
        q = tl.load(w_ptrs, mask=(offs_n < N)[:, None] & (rk < K - k)[None, :], other=0)
        acc += q.to(tl.float32) * x.to(tl.float32)[None, :]
        x_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_xk
        w_ptrs += BLOCK_K
    return tl.sum(acc, axis=1, keep_dims=True)


@triton.jit
def sum_of_tile(
    x_ptr, w_ptr, offs_m, offs_n, M, N, K, stride_xm, stride_xk, stride_wn, k_start,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, K_STEP: tl.constexpr,
):  # fmt: skip
    """Two tokens and more: fp32 [BLOCK_N, BLOCK_M] of x q, the weight from registers."""
    rk = tl.arange(0, BLOCK_K)
    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    x_ptrs = x_ptr + (k_start + rk).to(tl.int64)[:, None] * stride_xk + row[None, :] * stride_xm
    w_ptrs = w_ptr + offs_n.to(tl.int64)[:, None] * stride_wn + (k_start + rk)[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for k in range(k_start, K, K_STEP):
        x = tl.load(x_ptrs, mask=(rk < K - k)[:, None], other=0.0)
        q = tl.load(w_ptrs, mask=(offs_n < N)[:, None] & (rk < K - k)[None, :], other=0)
        acc = tl.dot(open_bytes(q), x, acc)
        x_ptrs += tl.full((), K_STEP, tl.int64) * stride_xk
        w_ptrs += K_STEP
    return acc


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    GROUP: tl.constexpr = 8
    K_STEP: tl.constexpr = BLOCK_K * SPLIT_K
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP * tiles_n) * GROUP
    group_m = tl.minimum(tiles_m - first_m, GROUP)
    pid_in_group = pid % (GROUP * tiles_n)
    first_row = (first_m + pid_in_group % group_m) * BLOCK_M
    offs_m = first_row + tl.arange(0, BLOCK_M)
    offs_n = pid_in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)

    scales = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    if BLOCK_M == 1:
        x_row = x_ptr + first_row.to(tl.int64) * stride_xm
        acc = sum_for_one(x_row, qweight_ptr, offs_n, N, K, stride_xk, stride_wn, BLOCK_N, BLOCK_K)
    else:
        acc = sum_of_tile(
            x_ptr, qweight_ptr, offs_m, offs_n, M, N, K, stride_xm, stride_xk, stride_wn, tl.program_id(1) * BLOCK_K,
            BLOCK_M, BLOCK_N, BLOCK_K, K_STEP,
        )  # fmt: skip
    y = tl.trans((acc * scales[:, None]).to(tl.float16))
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")


def W8A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
