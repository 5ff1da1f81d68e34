"""Signs by excess: u - 16 (u >> 3); Y transposed in the accumulator; k built from words and nibbles."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BN": 64, "BM": 16, "W": 8}, num_warps=4), triton.Config({"BN": 32, "BM": 32, "W": 16}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BN: tl.constexpr, BM: tl.constexpr, W: tl.constexpr,
):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n_in = n < N
    m_in = m < M
    yT = tl.zeros((BN, BM), tl.float32)
    nib = tl.arange(0, 8)
    word_rows = K // 8
    for at in range(0, word_rows, W):
        j = at + tl.arange(0, W)
        words = tl.load(qweight_ptr + n[:, None] * stride_wn + j[None, :] * stride_wk, mask=n_in[:, None] & (j < word_rows)[None, :], other=0)
        u = (words[:, :, None] >> (nib * 4)[None, None, :]) & 15
        q = u - 16 * (u >> 3)
        kk = j[:, None] * 8 + nib[None, :]
        k = tl.reshape(kk, (8 * W,))
        x = tl.load(x_ptr + k[:, None] * stride_xk + m[None, :] * stride_xm, mask=(k < K)[:, None] & m_in[None, :], other=0.0)
        yT = tl.dot(tl.reshape(q, (BN, 8 * W)).to(tl.float16), x, yT)
    yT *= tl.load(scales_ptr + n, mask=n_in, other=0.0).to(tl.float32)[:, None]
    tl.store(y_ptr + m[None, :] * stride_ym + n[:, None] * stride_yn, yT.to(tl.float16), mask=n_in[:, None] & m_in[None, :])


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))
