import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"ROWS": 4, "COLS": 32, "BLOCK_K": 64}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK_K: tl.constexpr,
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    scale = tl.load(scales_ptr + col, mask=col < N, other=1.0).to(tl.float32)
    total = tl.zeros((ROWS, COLS), tl.float32)
    k_start = 0
    while k_start < K:
        k = k_start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + row[:, None] * stride_xm + k[None, :] * stride_xk,
                    mask=(row[:, None] < M) & (k[None, :] < K), other=0.0).to(tl.float32)
        word = tl.load(qweight_ptr + (k[None, :] >> 3) * stride_wk + col[:, None] * stride_wn,
                       mask=(col[:, None] < N) & (k[None, :] < K), other=0)
        q = (word >> (k[None, :] & 7 << 2)) & 15
        q = (q ^ 7) - 8
        w = q.to(tl.float32) * scale[:, None]
        total = tl.sum(x[:, None, :] * w[None, :, :], axis=2)
        k_start += BLOCK_K
    tl.store(y_ptr + row[:, None] * stride_ym + col[None, :] * stride_yn, total.to(tl.float16),
             mask=(row[:, None] < M) & (col[None, :] < N))


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["COLS"]), triton.cdiv(M, meta["ROWS"]))
