import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": s}, num_warps=4) for s in (1, 3)]


@triton.jit
def spread(bits, WIDTH: tl.constexpr):
    """int32 [N, J] holding WIDTH bits each -> [N, J * WIDTH / 4], 4 bits each."""
    if WIDTH == 4:
        return bits
    else:
        HALF: tl.constexpr = WIDTH // 2
        MASK: tl.constexpr = (1 << HALF) - 1
        low = bits & MASK
        high = (bits >> HALF) & MASK
        return spread(tl.interleave(high, low), HALF)


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
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(N, BLOCK_N)
    pid_m = pid % tiles_m
    pid_n = pid // tiles_m
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for k0 in range(tl.program_id(1) * BLOCK_K, K, BLOCK_K * SPLIT_K):
        k = k0 + tl.arange(0, BLOCK_K)
        j = k0 // 8 + tl.arange(0, BLOCK_K // 8)
        words = tl.load(qweight_ptr + n[:, None].to(tl.int64) * stride_wn + j[None, :].to(tl.int64) * stride_wk,
                        mask=(n < N)[:, None] & (j * 8 < K)[None, :], other=0)
        q = (spread(words, 32) ^ 8) - 8
        x = tl.load(x_ptr + m[None, :].to(tl.int64) * stride_xm + k[:, None].to(tl.int64) * stride_xk,
                    mask=(m < M)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(q.to(tl.float16), x, acc)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = acc.T.to(tl.float16)
    yp = y_ptr + m[:, None].to(tl.int64) * stride_ym + n[None, :].to(tl.int64) * stride_yn
    inside = (m < M)[:, None] & (n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(yp, y, inside)
    else:
        tl.atomic_add(yp, y, inside)
