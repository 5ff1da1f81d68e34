import triton
import triton.language as tl


@triton.jit
def spread8(t, R: tl.constexpr, C: tl.constexpr):
    """[R, C] -> [8 R, C], each row eight times"""
    return tl.reshape(tl.broadcast_to(t[:, None, :], (R, 8, C)), (8 * R, C))


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 64, "BK": 64}, num_warps=4),
        triton.Config({"BM": 32, "BN": 32, "BK": 128}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    R: tl.constexpr = BK // 8
    om = tl.program_id(1) * BM + tl.arange(0, BM)
    on = tl.program_id(0) * BN + tl.arange(0, BN)
    n_ok = (on < N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for j0 in range(0, K // 8, R):
        j = j0 + tl.arange(0, R)
        ok = (j < K // 8)[:, None] & n_ok
        words = tl.load(qweight_ptr + j[:, None] * stride_wk + on[None, :] * stride_wn, mask=ok, other=0)
        grp = j * 8 // group_size
        s = tl.load(scales_ptr + grp[:, None] * stride_sg + on[None, :] * stride_sn, mask=ok, other=0.0)
        zw = tl.load(zeros_ptr + grp[:, None] * stride_zg + (on // 8)[None, :] * stride_zn, mask=ok, other=0)
        z = ((zw >> (on % 8 * 4)[None, :]) + 1) & 0xF
        q = (words[:, None, :] >> (tl.arange(0, 8) * 4)[None, :, None]) & 0xF
        q = tl.reshape(q, (BK, BN))
        w = (q - spread8(z, R, BN)).to(tl.float16) * spread8(s, R, BN)
        k = j0 * 8 + tl.arange(0, BK)
        x = tl.load(x_ptr + om[:, None] * stride_xm + k[None, :] * stride_xk, mask=(om < M)[:, None] & (k < K)[None, :], other=0.0)
        acc = tl.dot(x, w, acc)
    tl.store(y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn, acc.to(tl.float16), mask=(om < M)[:, None] & n_ok)


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))
