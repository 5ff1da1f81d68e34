"""Eight small products an iteration: nibble i of all words meets every eighth column of X."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 32, "WORDS": 16}, num_warps=4, num_stages=2),
        triton.Config({"BM": 32, "BN": 64, "WORDS": 32}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, WORDS: tl.constexpr,
):
    pid = tl.program_id(0)
    tn = tl.cdiv(N, BN)
    m0 = pid // tn * BM
    n0 = pid % tn * BN
    m = m0 + tl.arange(0, BM)
    n = n0 + tl.arange(0, BN)
    w_block = tl.make_block_ptr(qweight_ptr, (K // 8, N), (stride_wk, stride_wn), (0, n0), (WORDS, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K // 8, WORDS):
        word = tl.load(w_block, boundary_check=(0, 1), padding_option="zero")
        j = first + tl.arange(0, WORDS)
        for i in tl.static_range(8):
            xi = tl.load(
                x_ptr + m[:, None] * stride_xm + (i * (K // 8) + j)[None, :] * stride_xk,
                mask=(m < M)[:, None] & (j < K // 8)[None, :], other=0.0,
            )
            qi = (word << (28 - 4 * i)) >> 28
            acc = tl.dot(xi, qi.to(tl.float16), acc)
        w_block = tl.advance(w_block, (WORDS, 0))
    scale = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    acc = acc * scale[None, :].to(tl.float32)
    y_block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (m0, n0), (BM, BN), (1, 0))
    tl.store(y_block, acc.to(tl.float16), boundary_check=(0, 1))


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)
