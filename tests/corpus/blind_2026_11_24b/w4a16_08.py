"""Digits of a word in base 16, peeled off one after the other; each meets every eighth column of X."""
import triton
import triton.language as tl

CHOICES = [
    triton.Config({"A": 32, "B": 32, "C": 16}, num_warps=4, num_stages=2),
    triton.Config({"A": 16, "B": 64, "C": 16}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=CHOICES, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):
    stripes = tl.cdiv(N, B)
    t = tl.program_id(0)
    u = t // stripes * A + tl.arange(0, A)
    v = t % stripes * B + tl.arange(0, B)
    u_in = (u < M)[:, None]
    v_in = (v < N)[None, :]
    n_words = K // 8
    gathered = tl.zeros((A, B), tl.float32)
    for w_first in range(0, n_words, C):
        wi = w_first + tl.arange(0, C)
        wi_in = wi < n_words
        rest = tl.load(qweight_ptr + wi[:, None] * stride_wk + v[None, :] * stride_wn, mask=wi_in[:, None] & v_in, other=0)
        for place in tl.static_range(8):
            digit = rest & 15
            rest = rest // 16
            digit = tl.where(digit >= 8, digit - 16, digit)
            cols_x = tl.load(x_ptr + u[:, None] * stride_xm + (wi * 8 + place)[None, :] * stride_xk, mask=u_in & wi_in[None, :], other=0.0)
            gathered = tl.dot(cols_x, digit.to(tl.float16), gathered)
    f = tl.load(scales_ptr + v, mask=v < N, other=0.0).to(tl.float32)
    gathered = gathered * f[None, :]
    tl.store(y_ptr + u[:, None] * stride_ym + v[None, :] * stride_yn, gathered.to(tl.float16), mask=u_in & v_in)


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["A"]) * triton.cdiv(N, meta["B"]), 1)
