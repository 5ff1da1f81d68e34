import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BM": 16, "BN": 32, "BW": 16}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr,
):
    m0 = tl.program_id(1) * BM
    n0 = tl.program_id(0) * BN
    m = m0 + tl.arange(0, BM)
    n = n0 + tl.arange(0, BN)
    mm = m < M
    nn = n < N
    words = K // 8
    acc = tl.zeros((BM, BN), tl.float32)
    for w0 in range(0, words, BW):
        j = w0 + tl.arange(0, BW)
        jj = j < words
        w = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=jj[:, None] & nn[None, :], other=0)
        for i in tl.static_range(8):
            x = tl.load(x_ptr + m[:, None] * stride_xm + (j * 8 + i)[None, :] * stride_xk,
                        mask=mm[:, None] & jj[None, :], other=0.0)
            q = (w << (4 * i)) >> 28
            acc += tl.dot(x, q.to(tl.float16))
    s = tl.load(scales_ptr + n, mask=nn, other=0.0)
    acc = acc * s.to(tl.float32)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=mm[:, None] & nn[None, :])


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
