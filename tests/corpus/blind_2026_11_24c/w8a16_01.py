import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 4}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    bn = tl.program_id(0)
    bm = tl.program_id(1)
    bk = tl.program_id(2)
    m = bm * BLOCK_M + tl.arange(0, BLOCK_M)
    n = bn * BLOCK_N + tl.arange(0, BLOCK_N)
    k = bk * BLOCK_K + tl.arange(0, BLOCK_K)
    xp = x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk
    wp = qweight_ptr + n[None, :] * stride_wn + k[:, None] * stride_wk
    hop: tl.constexpr = BLOCK_K * SPLIT_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(tl.cdiv(K, hop)):
        x = tl.load(xp, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(wp, mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        acc += tl.dot(x, w.to(tl.float16))
        k += hop
        xp += BLOCK_K * stride_xk
        wp += BLOCK_K * stride_wk
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = (acc * s).to(tl.float16)
    yp = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
    ok = (m < M)[:, None] & (n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(yp, y, mask=ok)
    else:
        tl.atomic_add(yp, y, mask=ok, sem="relaxed")


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_M"]), meta["SPLIT_K"])
