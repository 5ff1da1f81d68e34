"""W4A16: each word loaded once and opened along a third axis."""
import triton
import triton.language as tl


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 64, "BK": 64}, num_warps=4),
        triton.Config({"BM": 32, "BN": 32, "BK": 128}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    WORDS: tl.constexpr = BK // 8
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    bits = 4 * tl.arange(0, 8)

    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        j = k0 // 8 + tl.arange(0, WORDS)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        words = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=(j < K // 8)[:, None] & (n < N)[None, :], other=0)
        q = (words[None, :, :] >> bits[:, None, None]) & 0xF
        q = tl.where(q >= 8, q - 16, q)
        q = tl.reshape(q, (BK, BN))
        acc = tl.dot(x, q.to(tl.float16), acc)

    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y = (acc * s[None, :]).to(tl.float16)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None] & (n < N)[None, :])
