"""int8 GEMM with quantisation on the fly. The last slab along K is moved back so that it is a full one."""
import triton
import triton.language as tl

tunings = [
    triton.Config({"TM": 32, "TN": 32, "TK": 64}, num_warps=4, num_stages=2),
    triton.Config({"TM": 16, "TN": 64, "TK": 32}, num_warps=2, num_stages=3),
]


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["TN"]), triton.cdiv(M, meta["TM"]))


@triton.jit
def to_q(v, step):
    t = v.to(tl.float32) / step
    t = tl.where(t < 0, tl.ceil(t - 0.5), tl.floor(t + 0.5))
    return tl.clamp(t, -128.0, 127.0).to(tl.int8)


@triton.autotune(configs=tunings, key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):
    tok = tl.program_id(1) * TM + tl.arange(0, TM)
    chan = tl.program_id(0) * TN + tl.arange(0, TN)
    lane = tl.arange(0, TK)
    tok_in = tok < M
    chan_in = chan < N
    step = tl.load(input_scale_ptr + tok, mask=tok_in, other=1.0)

    total = tl.zeros((TM, TN), dtype=tl.int32)
    slabs = tl.cdiv(K, TK)
    for s in range(slabs):
        begin = tl.minimum(s * TK, tl.maximum(K - TK, 0))
        dep = begin + lane
        dep_in = dep < K
        xv = tl.load(x_ptr + tok[:, None] * stride_xm + dep[None, :] * stride_xk,
                     mask=tok_in[:, None] & dep_in[None, :], other=0.0)
        wv = tl.load(qweight_ptr + dep[:, None] * stride_wk + chan[None, :] * stride_wn,
                     mask=dep_in[:, None] & chan_in[None, :], other=0)
        total += tl.dot(to_q(xv, step[:, None]), wv)

    wstep = tl.load(weight_scale_ptr + chan, mask=chan_in, other=0.0)
    res = total.to(tl.float32) * step[:, None] * wstep[None, :]
    tl.store(y_ptr + tok[:, None] * stride_ym + chan[None, :] * stride_yn, res.to(tl.float16),
             mask=tok_in[:, None] & chan_in[None, :])
