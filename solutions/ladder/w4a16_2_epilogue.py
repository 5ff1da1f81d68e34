"""W4A16, step 2: the scale leaves the sum and is applied once, in the epilogue.

Changes: the loop multiplies x with bare integers, which fp16 holds exactly, and adds into the accumulator in place.
Predicted: one multiplication per element less, a tenth of the time; and less rounding, since q * s is never rounded.
Measured, microseconds, cuBLAS fp16 in brackets: 1 token 58.25 (12.69); 16 54.38 (12.73); 512 112.9 (24.79).
3 % at most: the loop waits for loads, not for multiplications. The better rounding is what remains.
"""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
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
    scales = tl.load(scales_ptr + offs_n, mask=in_n, other=0.0)
    x_ptrs = x_ptr + row[:, None] * stride_xm + offs_k.to(tl.int64)[None, :] * stride_xk
    w_ptrs = qweight_ptr + (offs_k // 8).to(tl.int64)[:, None] * stride_wk + offs_n.to(tl.int64)[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        in_k = offs_k < K - k
        x = tl.load(x_ptrs, mask=in_k[None, :], other=0.0)
        words = tl.load(w_ptrs, mask=in_k[:, None] & in_n[None, :], other=0)
        # Up to the top, then back down with the sign: the nibble at bits 4 * (k % 8), as -8 to 7.
        w = ((words << (28 - 4 * (offs_k % 8))[:, None]) >> 28).to(tl.float16)
        acc = tl.dot(x, w, acc)
        x_ptrs += tl.full((), BLOCK_K, tl.int64) * stride_xk
        w_ptrs += tl.full((), BLOCK_K // 8, tl.int64) * stride_wk
    y = (acc * scales.to(tl.float32)[None, :]).to(tl.float16)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n.to(tl.int64)[None, :] * stride_yn
    tl.store(y_ptrs, y, mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def W4A16_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of Y (axis 0) and each slice of K (axis 1)."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), meta.get("SPLIT_K", 1))
