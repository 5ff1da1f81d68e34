"""GPTQ by the bits of fp16: 0x6400 | u is 1024 + u. The zero point gets the same bits, and both 1024 cancel."""
import triton
import triton.language as tl

MAGIC = tl.constexpr(0x6400)


@triton.jit
def as_half(u):
    return (u | MAGIC).to(tl.int16).to(tl.float16, bitcast=True)


@triton.autotune(
    configs=[triton.Config({"BM": 16, "BN": n, "BK": k}, num_warps=4, num_stages=3) for n, k in ((32, 64), (64, 128), (128, 32))],
    key=["M", "N", "K"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """The loop moves pointers of X; words are opened by interleaving three times."""
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    depth, j = tl.arange(0, BK), tl.arange(0, BK // 8)
    ok_m, ok_n = (rows < M)[:, None], cols < N
    x_ptrs = x_ptr + rows[:, None] * stride_xm + depth[None, :] * stride_xk
    acc = tl.zeros((BM, BN), tl.float32)
    k = 0
    while k < K:
        x = tl.load(x_ptrs, mask=ok_m & (depth < K - k)[None, :], other=0)
        word = k // 8 + j
        ok = ok_n[:, None] & (word < K // 8)[None, :]
        words = tl.load(qweight_ptr + cols[:, None] * stride_wn + word[None, :] * stride_wk, mask=ok, other=0)
        group = word * 8 // group_size
        scale = tl.load(scales_ptr + cols[:, None] * stride_sn + group[None, :] * stride_sg, mask=ok, other=0)
        zero = tl.load(zeros_ptr + (cols // 8)[:, None] * stride_zn + group[None, :] * stride_zg, mask=ok, other=0)
        zero = as_half((zero >> (cols % 8 * 4)[:, None]) & 15) + 1.0
        nibbles = tl.interleave(
            tl.interleave(tl.interleave(words, words >> 16), tl.interleave(words >> 8, words >> 24)),
            tl.interleave(tl.interleave(words >> 4, words >> 20), tl.interleave(words >> 12, words >> 28)),
        )
        eight = tl.interleave(tl.interleave(tl.interleave(zero, zero), tl.interleave(zero, zero)),
                              tl.interleave(tl.interleave(zero, zero), tl.interleave(zero, zero)))
        scales = tl.interleave(tl.interleave(tl.interleave(scale, scale), tl.interleave(scale, scale)),
                               tl.interleave(tl.interleave(scale, scale), tl.interleave(scale, scale)))
        w = (as_half(nibbles & 15) - eight) * scales
        acc = tl.dot(x, tl.trans(w), acc)
        x_ptrs += BK * stride_xk
        k += BK
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn, acc.to(tl.float16), mask=ok_m & ok_n[None, :])


def GPTQ_MM_grid(M, N, K, meta):
    return triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"])
