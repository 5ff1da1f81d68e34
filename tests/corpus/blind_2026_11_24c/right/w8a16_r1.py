"""Weights by descriptor as stored, Y^T in the accumulator, the even and the odd half of K in two loops."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BM": 16, "BN": 64, "BK": 64}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    n0 = tl.program_id(0) * BN
    n = n0 + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    w_desc = tl.make_tensor_descriptor(qweight_ptr, shape=[N, K], strides=[stride_wn, 1], block_shape=[BN, BK])
    accT = tl.zeros((BN, BM), tl.float32)
    for phase in tl.static_range(2):
        for k0 in range(phase * BK, K, 2 * BK):
            k = k0 + tl.arange(0, BK)
            xT = tl.load(x_ptr + k[:, None] * stride_xk + m[None, :] * stride_xm, mask=(k < K)[:, None] & (m < M)[None, :], other=0.0)
            accT = tl.dot(w_desc.load([n0, k0]).to(tl.float16), xT, accT)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    y = tl.trans(accT * s.to(tl.float32)[:, None]).to(tl.float16)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None] & (n < N)[None, :])


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))
