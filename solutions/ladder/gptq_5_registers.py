"""GPTQ, step 5: the product is transposed, so that the weight comes from registers, opened where it is needed.

Changes: Y^T = W X^T, and each thread shifts out of the word the nibbles that it multiplies itself. Where a tile lies
in one group, the opened weights no longer pass through shared memory. A nibble becomes fp16 by its bits, together with
its zero point: 0x6400 plus q + 16 - (z + 1) is 1040 + q - (z + 1), so one subtraction of 1040 serves two weights.
Predicted: half the time, as in W4A16. What solutions/gptq.py adds: scales are asked for an iteration ahead, and up to eight tokens have K
sliced among warps.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 9.01 (12.8); 16 8.74 (12.9); 64 12.8 (12.0).
Three tenths with few tokens and a fifth with 64, where half was predicted. With one token this step saves 3.8 us, and what the solution
adds 2.2 more.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 8}, num_warps=4, num_stages=3),
]


@triton.jit
def load_groups(scales_ptr, zeros_ptr, g, n, inside, stride_sg, stride_sn, stride_zg, stride_zn):
    """Scales fp16 and zero points int32, 1 to 16, of groups g and columns n, which are spread over each other."""
    scales = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=inside, other=0.0)
    words = tl.load(zeros_ptr + g * stride_zg + n // 8 * stride_zn, mask=inside, other=0)
    return scales, ((words >> (4 * (n % 8)).to(tl.int32)) & 0xF) + 1


@triton.jit
def open_words(words, zeros):
    """int32 [R, C], eight nibbles a word, and zero points [R, C] or [R, 1] -> fp16 [R, 8 * C] of q - (z + 1)."""
    # A byte times 2^12 + 1 stands at bits 0..7 and at 12..19: its lower nibble at 0..3, its upper one at 16..19.
    byte = (words[:, :, None] >> (8 * tl.arange(0, 4))[None, None, :]) & 0xFF
    # 0x6400 | u is 1024 + u in fp16, also for the u = q + 16 - (z + 1) of 0 to 30.
    two = ((byte * 4097) & 0x000F000F) + ((0x6410 - zeros) * 0x10001)[:, :, None]
    even = two.to(tl.int16).to(tl.float16, bitcast=True)
    odd = (two >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return tl.reshape(tl.join(even, odd) - 1040.0, (words.shape[0], 8 * words.shape[1]))


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
    ONE_GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs_m = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    n = offs_n.to(tl.int64)
    in_n = offs_n < N
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for first in range(tl.program_id(1) * BLOCK_K, K, BLOCK_K * SPLIT_K):
        k = first + offs_k
        x_ptrs = x_ptr + k.to(tl.int64)[:, None] * stride_xk + row[None, :] * stride_xm
        x = tl.load(x_ptrs, mask=(k < K)[:, None], other=0.0)
        j = first // 8 + tl.arange(0, BLOCK_K // 8)
        in_w = in_n[:, None] & (j < K // 8)[None, :]
        w_ptrs = qweight_ptr + n[:, None] * stride_wn + j.to(tl.int64)[None, :] * stride_wk
        words = tl.load(w_ptrs, mask=in_w, other=0)

        if ONE_GROUP:
            group = (first // group_size).to(tl.int64)
            scale, zero = load_groups(
                scales_ptr, zeros_ptr, group, n[:, None], in_n[:, None], stride_sg, stride_sn, stride_zg, stride_zn
            )
            acc += tl.dot(open_words(words, zero), x) * scale.to(tl.float32)
        else:
            g = (8 * j // group_size).to(tl.int64)
            scales, zeros = load_groups(
                scales_ptr, zeros_ptr, g[None, :], n[:, None], in_w, stride_sg, stride_sn, stride_zg, stride_zn
            )
            eight = tl.reshape(tl.broadcast_to(scales[:, :, None], (BLOCK_N, BLOCK_K // 8, 8)), (BLOCK_N, BLOCK_K))
            acc += tl.dot(open_words(words, zeros) * eight, x)
    y = tl.trans(acc.to(tl.float16))
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & in_n[None, :]
    if SPLIT_K == 1:
        tl.store(y_ptrs, y, mask=inside)
    else:
        tl.atomic_add(y_ptrs, y, mask=inside, sem="relaxed")


def GPTQ_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
