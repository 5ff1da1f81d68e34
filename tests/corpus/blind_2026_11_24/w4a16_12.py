import triton
import triton.language as tl
from triton.language import constexpr as ce


def make(bm, bn, bk, split=1, **kw):
    return triton.Config({"TM": bm, "TN": bn, "TK": bk, "SPLIT_K": split}, **kw)


@triton.jit
def magic(w, shift):
    """fp16 1024 + n has the bits 0x6400 + n"""
    bits = (((w >> shift) & 0xF) ^ 0x8) | 0x6400
    return bits.to(tl.int16).to(tl.float16, bitcast=True) - 1032.0


@triton.autotune(configs=[make(16, 64, 16, num_warps=2), make(16, 32, 32, 4, num_warps=4), make(32, 16, 16, 3, num_warps=1)], key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn,
             stride_ym, stride_yn, TM: ce, TN: ce, TK: ce, SPLIT_K: ce):
    # TK words a step: TK * 8 elements of K
    pid, slice_ = tl.program_id(0), tl.program_id(1)
    nn = tl.cdiv(N, TN)
    m = (pid // nn) * TM + tl.arange(0, TM)
    n = (pid % nn) * TN + tl.arange(0, TN)
    acc = tl.zeros((TM, TN), dtype=tl.float32)
    words = K // 8
    for step in range(slice_, tl.cdiv(words, TK), SPLIT_K):
        j = step * TK + tl.arange(0, TK)
        w = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=(j < words)[:, None] & (n < N)[None, :], other=0)
        for i in tl.static_range(8):
            x = tl.load(x_ptr + m[:, None] * stride_xm + (8 * j + i)[None, :] * stride_xk, mask=(m < M)[:, None] & (j < words)[None, :], other=0.0)
            acc = tl.dot(x, magic(w, 4 * i), acc)
    s = tl.load(scales_ptr + n, mask=n < N, other=0)[None, :].to(tl.float32)
    acc = tl.where(slice_ == 0, acc * s, acc)
    p = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
    ok = (m < M)[:, None] & (n < N)[None, :]
    if SPLIT_K == 1:
        tl.store(p, acc.to(tl.float16), mask=ok)
    else:
        tl.atomic_add(p, acc.to(tl.float16), mask=ok, sem="relaxed")


def W4A16_MM_grid(M, N, K, meta):
    return triton.cdiv(M, meta["TM"]) * triton.cdiv(N, meta["TN"]), meta["SPLIT_K"]
