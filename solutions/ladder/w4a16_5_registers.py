"""W4A16, step 5: the product is transposed, so that the weight comes from registers, opened where it is needed.

Changes: Y^T = W X^T, and each thread shifts out of the word the nibbles that it multiplies itself: the opened weights,
four times the bytes of the words, no longer pass through shared memory. wgmma takes only its first operand from
registers, so the weight must be first. The smallest tiles (mma.sync) could take either, but step 4's joins left the
nibbles with other threads. X may now be as narrow as 8.
Predicted: with few tokens half the time, because the trip and its barriers are most of what the loop does; a third off
with 512, where the products weigh more. What solutions/w4a16.py adds is mostly for one token; a mask kept in a
register, a ninth of the loop's instructions, is for all.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 7.471 (12.7); 16 7.948 (12.75); 512 36.71 (24.8).
As predicted with few tokens, and more than that with 512: the trip was the bottleneck there, too.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 8, "BLOCK_N": 128, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4, num_stages=5),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=4),
]


@triton.jit
def open_words(words):
    """int32 [R, C], eight nibbles a word -> fp16 [R, 8 * C] in the order of K."""
    # A byte times 2^12 + 1 stands at bits 0..7 and at 12..19: its lower nibble at 0..3, its upper one at 16..19.
    byte = (words[:, :, None] >> (8 * tl.arange(0, 4))[None, None, :]) & 0xFF
    # 0x6400 | u is 1024 + u in fp16; flipping the nibble's sign bit makes u = q + 8.
    two = ((byte * 4097) & 0x000F000F) ^ 0x64086408
    even = two.to(tl.int16).to(tl.float16, bitcast=True)
    odd = (two >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return tl.reshape(tl.join(even, odd) - 1032.0, (words.shape[0], 8 * words.shape[1]))


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
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
    rw = tl.arange(0, BLOCK_K // 8)

    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    in_n = offs_n < N
    scales = tl.load(scales_ptr + offs_n, mask=in_n, other=0.0).to(tl.float32)
    k_start = tl.program_id(1) * BLOCK_K
    x_ptrs = x_ptr + (k_start + offs_k).to(tl.int64)[:, None] * stride_xk + row[None, :] * stride_xm
    w_ptrs = qweight_ptr + offs_n.to(tl.int64)[:, None] * stride_wn + (k_start // 8 + rw).to(tl.int64)[None, :] * stride_wk
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for k in range(k_start, K, BLOCK_K * SPLIT_K):
        x = tl.load(x_ptrs, mask=(offs_k < K - k)[:, None], other=0.0)
        words = tl.load(w_ptrs, mask=in_n[:, None] & (rw < (K - k) // 8)[None, :], other=0)
        acc = tl.dot(open_words(words), x, acc)
        x_ptrs += tl.full((), BLOCK_K * SPLIT_K, tl.int64) * stride_xk
        w_ptrs += tl.full((), BLOCK_K * SPLIT_K // 8, tl.int64) * stride_wk
    y = tl.trans((acc * scales[:, None]).to(tl.float16))
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")


def W4A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
