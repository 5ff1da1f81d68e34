import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quant(x, s):
    y = libdevice.rint(x.to(tl.float32) / s[:, None])
    return tl.cast(tl.maximum(tl.minimum(y, 127), -128), tl.int8)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Two neighbouring column tiles a program, K from its end to its beginning."""
    pm, pn = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    m = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    n0 = pn * 2 * BLOCK_N + tl.arange(0, BLOCK_N)
    n1 = n0 + BLOCK_N
    s = tl.load(input_scale_ptr + m, mask=m < M, other=1.0)
    acc0 = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    acc1 = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    last = (tl.cdiv(K, BLOCK_K) - 1) * BLOCK_K
    for back in range(0, last + 1, BLOCK_K):
        k = last - back + tl.arange(0, BLOCK_K)
        km = k < K
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None] & km[None, :], other=0.0)
        w0 = tl.load(qweight_ptr + k[:, None] * stride_wk + n0[None, :] * stride_wn, mask=km[:, None] & (n0 < N)[None, :], other=0)
        w1 = tl.load(qweight_ptr + k[:, None] * stride_wk + n1[None, :] * stride_wn, mask=km[:, None] & (n1 < N)[None, :], other=0)
        q = quant(x, s)
        acc0 += tl.dot(q, w0, out_dtype=tl.int32)
        acc1 += tl.dot(q, w1, out_dtype=tl.int32)
    for half in tl.static_range(2):
        n = n0 + half * BLOCK_N
        acc = acc0 if half == 0 else acc1
        t = tl.load(weight_scale_ptr + n0, mask=n0 < N, other=0.0)
        out = acc.to(tl.float32) * t[None, :] * s[:, None]
        tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, out.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, 2 * meta["BLOCK_N"]))
