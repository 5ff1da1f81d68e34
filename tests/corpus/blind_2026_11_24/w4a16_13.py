import triton
import triton.language as tl


@triton.jit
def unpack(word, place):
    nib = (word >> (4 * place)) & 15
    return nib - ((nib & 8) << 1)


@triton.autotune(
    configs=[triton.Config({"BM": 16, "BN": 32, "BK": 64, "GROUP": 2}, num_warps=4), triton.Config({"BM": 32, "BN": 64, "BK": 32, "GROUP": 4}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
             stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid_m, pid_n = tl.swizzle2d(tl.program_id(0) // tl.cdiv(N, BN), tl.program_id(0) % tl.cdiv(N, BN), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    # rows and columns that do not exist read the last one that does
    cm = tl.minimum(rm, M - 1)
    cn = tl.minimum(rn, N - 1)
    s = tl.load(scales_ptr + cn, mask=rn < M, other=0.0).to(tl.float32)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in tl.range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + cm[:, None] * stride_xm + rk[None, :] * stride_xk, mask=(rk < K)[None, :], other=0.0)
        word = tl.load(qweight_ptr + (rk // 8)[:, None] * stride_wk + cn[None, :] * stride_wn, mask=(rk < K)[:, None], other=0)
        acc += tl.dot(x, unpack(word, (rk % 8)[:, None]).to(tl.float16))
    acc *= s[None, :]
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, acc.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :])


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)
