import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BM": 16, "BN": 16, "BK": 32}), triton.Config({"BM": 16, "BN": 32, "BK": 64})], key=["M", "N", "K"])
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size, stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    i_ok = (i < M)[:, None]
    j_ok = (j < N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for g in range(K // group_size):
        s = tl.load(scales_ptr + g * stride_sg + j * stride_sn, mask=j < N, other=0.0).to(tl.float32)
        z = tl.load(zeros_ptr + g * stride_zg + j // 8 * stride_zn, mask=j < N, other=0)
        z = ((z >> (j % 8 * 4)) + 1) & 15
        part = tl.zeros((BM, BN), tl.float32)
        for k in range(0, group_size, BK):
            inside = k + tl.arange(0, BK)
            kk = g * group_size + inside
            k_ok = inside < group_size
            a = tl.load(x_ptr + i[:, None] * stride_xm + kk[None, :] * stride_xk, mask=i_ok & k_ok[None, :], other=0.0)
            w = tl.load(qweight_ptr + (kk // 8)[:, None] * stride_wk + j[None, :] * stride_wn, mask=k_ok[:, None] & j_ok, other=0)
            w = (w >> (kk % 8 * 4)[:, None]) & 15
            part = tl.dot(a, (w - z[None, :]).to(tl.float16), part)
        total += part * s[None, :]
    tl.store(y_ptr + i[:, None] * stride_ym + j[None, :] * stride_yn, total.to(tl.float16), mask=i_ok & j_ok)


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))
