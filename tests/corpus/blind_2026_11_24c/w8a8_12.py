"""The weight comes through a tensor descriptor, [N, K] as it is stored."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 32, "BK": 128}, num_warps=4, num_stages=2),
        triton.Config({"BM": 64, "BN": 64, "BK": 64}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    n_start = tl.program_id(1) * BN
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = n_start + tl.arange(0, BN)
    weight = tl.make_tensor_descriptor(qweight_ptr, shape=[N, K], strides=[stride_wn, 1], block_shape=[BN, BK])
    m64 = tl.minimum(m, M - 1).to(tl.int64)
    sx = tl.load(input_scale_ptr + m64)
    acc = tl.zeros([BM, BN], dtype=tl.int32)
    for step in tl.range(0, tl.cdiv(K, BK)):
        k = step * BK + tl.arange(0, BK)
        x = tl.load(x_ptr + m64[:, None] * stride_xm + k[None, :] * stride_xk, mask=k[None, :] < K, other=0.0)
        lo = (sx * -128.0)[:, None]
        hi = (sx * 127.0)[:, None]
        x = tl.minimum(tl.maximum(x.to(tl.float32), lo), hi)
        q = tl.extra.cuda.libdevice.rint(x / sx[:, None]).to(tl.int8)
        w = weight.load([n_start, step])
        acc += tl.dot(q, tl.trans(w))
    sw = tl.load(weight_scale_ptr + n, mask=n < N, other=0.0)
    scales = (sx[:, None] * sw[None, :]).to(tl.float16)
    y = (acc.to(tl.float32) * scales).to(tl.float16)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m[:, None] < M) & (n[None, :] < N))


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
