"""W8A8, a while loop and a helper that rounds and clips."""
import triton
import triton.language as tl

INT8_MAX = tl.constexpr(127.0)
INT8_MIN = tl.constexpr(-128.0)


@triton.jit
def round_clip(v):
    v = tl.floor(v + 0.5)
    v = tl.where(v > INT8_MAX, INT8_MAX, v)
    v = tl.where(v < INT8_MIN, INT8_MIN, v)
    return v.to(tl.int8)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": 64, "BLOCK_K": k}, num_warps=4) for m, k in ((16, 64), (32, 32))],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    tokens = (tl.program_id(0) // tl.cdiv(N, BLOCK_N)) * BLOCK_M + tl.arange(0, BLOCK_M)
    channels = (tl.program_id(0) % tl.cdiv(N, BLOCK_N)) * BLOCK_N + tl.arange(0, BLOCK_N)
    lanes = tl.arange(0, BLOCK_K)
    # what lies outside of Y is computed from the last row and column, and not stored
    t = tl.minimum(tokens, M - 1)
    c = tl.minimum(channels, N - 1)
    token_scale = tl.load(input_scale_ptr + t)
    channel_scale = tl.load(weight_scale_ptr + c)

    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    k = 0
    while k < K:
        valid = k + lanes < K
        x = tl.load(x_ptr + t[:, None] * stride_xm + (k + lanes)[None, :] * stride_xk, mask=valid[None, :], other=0.0)
        w = tl.load(qweight_ptr + (k + lanes)[:, None] * stride_wk + c[None, :] * stride_wn, mask=valid[:, None], other=0)
        xf = x.to(tl.float32)
        peak = tl.max(tl.abs(xf), axis=1)
        tile_scale = tl.maximum(peak / 127.0, 1e-6)
        q = round_clip(xf / tile_scale[:, None])
        sums = tl.dot(q, w, sums, out_dtype=tl.int32)
        k += BLOCK_K

    y = sums.to(tl.float32) * token_scale[:, None] * channel_scale[None, :]
    inside = (tokens < M)[:, None] & (channels < N)[None, :]
    tl.store(y_ptr + tokens[:, None] * stride_ym + channels[None, :] * stride_yn, y.to(tl.float16), mask=inside)
