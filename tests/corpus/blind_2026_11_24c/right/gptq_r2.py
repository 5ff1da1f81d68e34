"""w = q s - (z + 1) s with a fused multiply-add in fp32; the tokens of a tile are looped over with a while."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BN": 32, "BK": 64, "SPLIT_K": 2}, num_warps=4), triton.Config({"BN": 64, "BK": 32, "SPLIT_K": 1}, num_warps=4)],
    key=["M", "N", "K", "group_size"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BN: tl.constexpr, BK: tl.constexpr, SPLIT_K: tl.constexpr,
):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    cn = tl.minimum(n, N - 1)
    m0 = 0
    while m0 < M:
        m = m0 + tl.arange(0, 16)
        acc = tl.zeros((16, BN), tl.float32)
        for k0 in range(tl.program_id(1) * BK, K, BK * SPLIT_K):
            k = k0 + tl.arange(0, BK)
            ck = tl.minimum(k, K - 1)
            g = ck // group_size
            q = (tl.load(qweight_ptr + (ck // 8)[:, None] * stride_wk + cn[None, :] * stride_wn) >> (ck % 8 * 4)[:, None]) & 15
            s = tl.load(scales_ptr + g[:, None] * stride_sg + cn[None, :] * stride_sn).to(tl.float32)
            z = (tl.load(zeros_ptr + g[:, None] * stride_zg + (cn // 8)[None, :] * stride_zn) >> (cn % 8 * 4)[None, :]) & 15
            w = tl.fma(q.to(tl.float32), s, -(z + 1).to(tl.float32) * s)
            x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
            acc = tl.dot(x, w.to(tl.float16), acc)
        to = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
        keep = (m < M)[:, None] & (n < N)[None, :]
        if SPLIT_K == 1:
            tl.store(to, acc.to(tl.float16), mask=keep)
        else:
            tl.atomic_add(to, acc.to(tl.float16), mask=keep)
        m0 += 16


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), meta["SPLIT_K"])
