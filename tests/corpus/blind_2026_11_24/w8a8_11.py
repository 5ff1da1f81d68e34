import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BM": 16, "BN": 64, "BK": 64}, num_warps=4, num_stages=3)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
            stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(axis=0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(axis=1) * BN + tl.arange(0, BN)[None, :]
    d = tl.arange(0, BK)
    s_i = tl.load(input_scale_ptr + i, mask=i < M, other=1.0)
    s_j = tl.load(weight_scale_ptr + j, mask=j < N, other=1.0)
    xs = x_ptr + i * stride_xm + d[None, :] * stride_xk
    ws = qweight_ptr + d[:, None] * stride_wk + j * stride_wn
    acc = tl.zeros([BM, BN], dtype=tl.int32)
    rest = K
    while rest > 0:
        x = tl.load(xs, mask=(i < M) & (d[None, :] < rest), other=0)
        w = tl.load(ws, mask=(d[:, None] < rest) & (j < N), other=0)
        q = x.to(tl.float32) / s_i
        q = tl.where(q < 0, tl.ceil(q - 0.5), tl.floor(q + 0.5))
        q = tl.minimum(tl.maximum(q, -128.0), 127.0)
        acc = tl.dot(q.to(tl.int8), w, acc=acc, out_dtype=tl.int32)
        xs += BK * stride_xk
        ws += BK * stride_wk
        rest -= BK
    y = acc.to(tl.float32) * (s_i * s_j)
    tl.store(y_ptr + i * stride_ym + j * stride_yn, y.to(y_ptr.dtype.element_ty), mask=(i < M) & (j < N))


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]))
