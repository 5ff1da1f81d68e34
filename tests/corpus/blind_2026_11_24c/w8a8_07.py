# loads of the next tiles are issued before the product of this one
import triton
import triton.language as tl


@triton.jit
def quant(x, s):
    t = x.to(tl.float32) / s[:, None]
    t = tl.where(t >= 0, tl.floor(t + 0.5), tl.ceil(t - 0.5))
    return tl.clamp(t, -128.0, 127.0).to(tl.int8)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=1)],
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
    tiles_m = tl.cdiv(M, BLOCK_M)
    rm = pid % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    mask_m = rm < M
    mask_n = rn < N
    s_row = tl.load(input_scale_ptr + rm, mask=mask_m, other=1.0)

    px = x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk
    pw = qweight_ptr + rk[:, None] * stride_wk + rn[None, :] * stride_wn
    x_now = tl.load(px, mask=mask_m[:, None] & (rk < K)[None, :], other=0.0)
    w_now = tl.load(pw, mask=(rk < K)[:, None] & mask_n[None, :], other=0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for k in range(0, K, BLOCK_K):
        px += BLOCK_K * stride_xk
        pw += BLOCK_K * stride_wk
        ahead = rk < K - k
        x_next = tl.load(px, mask=mask_m[:, None] & ahead[None, :], other=0.0)
        w_next = tl.load(pw, mask=ahead[:, None] & mask_n[None, :], other=0)
        acc = tl.dot(quant(x_now, s_row), w_now, acc, out_dtype=tl.int32)
        x_now = x_next
        w_now = w_next

    s_col = tl.load(weight_scale_ptr + rn, mask=mask_n, other=1.0)
    y = (acc.to(tl.float32) * s_row[:, None] * s_col[None, :]).to(tl.float16)
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, y, mask=mask_m[:, None] & mask_n[None, :])
