"""W4A16 by 50 programs at most, each of which makes several tiles, or slices of them along K, some of which have no k."""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 4}, num_warps=4, num_stages=3),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N) * SPLIT_K
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        pid = tile // SPLIT_K
        part = tile % SPLIT_K
        tiles_n = tl.cdiv(N, BLOCK_N)
        offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)

        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(part * BLOCK_K, K, BLOCK_K * SPLIT_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            xp = x_ptr + offs_m[:, None].to(tl.int64) * stride_xm + offs_k[None, :].to(tl.int64) * stride_xk
            wp = qweight_ptr + (offs_k[:, None] // 8) * stride_wk + offs_n[None, :] * stride_wn
            x = tl.load(xp, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
            w = tl.load(wp, mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0)
            q = ((w << (28 - 4 * (offs_k[:, None] % 8))) >> 28).to(tl.float16)
            acc = tl.dot(x, q, acc)

        sc = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
        y = (acc * sc[None, :]).to(tl.float16)

        yp = y_ptr + offs_m[:, None].to(tl.int64) * stride_ym + offs_n[None, :] * stride_yn
        inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        if SPLIT_K == 1:
            tl.store(yp, y, mask=inside)
        else:
            tl.atomic_add(yp, y, mask=inside)


def W4A16_MM_grid(M, N, K, meta):
    return (min(50, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]) * meta["SPLIT_K"]),)
