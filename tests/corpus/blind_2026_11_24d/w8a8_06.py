"""W8A8: full steps without a mask along K, then one step for what is left."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    nn = tl.cdiv(N, BLOCK_N)
    ym = pid // nn * BLOCK_M + tl.arange(0, BLOCK_M)
    yn = pid % nn * BLOCK_N + tl.arange(0, BLOCK_N)
    om = tl.where(ym < M, ym, 0)
    on = tl.where(yn < N, yn, 0)
    ok = tl.arange(0, BLOCK_K)
    xs = x_ptr + (om * stride_xm)[:, None] + (ok * stride_xk)[None, :]
    ws = qweight_ptr + (ok * stride_wk)[:, None] + (on * stride_wn)[None, :]
    sx = tl.load(input_scale_ptr + om)
    inv_sx = (1.0 / sx)[:, None]

    steps = K // BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(steps):
        v = tl.load(xs).to(tl.float32) * inv_sx
        v = tl.minimum(tl.maximum(tl.floor(v + 0.5), -128.0), 127.0)
        acc += tl.dot(v.to(tl.int8), tl.load(ws))
        xs += BLOCK_K * stride_xk
        ws += BLOCK_K * stride_wk
    left = K - steps * BLOCK_K
    if left > 0:
        v = tl.load(xs, mask=(ok < left)[None, :], other=0.0).to(tl.float32) * inv_sx
        v = tl.minimum(tl.maximum(v, -128.0), 127.0)
        acc += tl.dot(v.to(tl.int8), tl.load(ws, mask=(ok < left)[:, None], other=0))

    sw = tl.load(weight_scale_ptr + on)
    y = acc.to(tl.float32) * sw[None, :] * sx[:, None]
    tl.store(y_ptr + ym[:, None] * stride_ym + yn[None, :] * stride_yn, y.to(tl.float16), mask=(ym < M)[:, None] & (yn < N)[None, :])
