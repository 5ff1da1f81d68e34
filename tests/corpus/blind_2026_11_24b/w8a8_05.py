import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4, num_stages=1)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The tiles of the next turn are asked for before those of this one are multiplied."""
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    rm = pid % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    xp = x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk
    wp = qweight_ptr + rk[:, None] * stride_wk + rn[None, :] * stride_wn
    sx = tl.load(input_scale_ptr + rm, mask=rm < M, other=1.0)
    x = tl.load(xp, mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
    w = tl.load(wp, mask=(rn < N)[None, :] & (rk < K)[:, None], other=0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    left = K
    while left > 0:
        left -= BLOCK_K
        xp += BLOCK_K * stride_xk
        wp += BLOCK_K * stride_wk
        x_next = tl.load(xp, mask=(rm < M)[:, None] & (rk < left)[None, :], other=0.0)
        w_next = tl.load(wp, mask=(rn < N)[None, :] & (rk < left)[:, None], other=0)
        f = x.to(tl.float32) / sx[:, None]
        sign = tl.where(f < 0, -1.0, 1.0)
        mag = tl.floor(tl.abs(f) + 0.5)
        q = tl.minimum(tl.maximum(sign * mag, -128), 127).to(tl.int8)
        acc = tl.dot(q, w_next, acc, out_dtype=tl.int32)
        x = x_next
        w = w_next
    scales = sx[:, None] * tl.load(weight_scale_ptr + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, (acc * scales).to(tl.float16), mask=inside)
