import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4), triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    num_m = tl.cdiv(M, BLOCK_M)
    pid_m = tl.program_id(0) % num_m
    pid_n = tl.program_id(0) // num_m
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = (rm < M)[:, None]
    mask_n = (rn < N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16)
    for k0 in range(0, K, BLOCK_K):
        rk = k0 + tl.arange(0, BLOCK_K)
        mask_k = rk < K
        x = tl.load(x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk, mask=mask_m & mask_k[None, :], other=0.0)
        packed = tl.load(qweight_ptr + (rk >> 3)[:, None] * stride_wk + rn[None, :] * stride_wn, mask=mask_k[:, None] & mask_n, other=0)
        # up to the top of the word and down again, which brings the sign along
        w = (packed << (28 - ((rk & 7) << 2))[:, None]) >> 28
        acc += tl.dot(x, w.to(tl.float16), out_dtype=tl.float16)
    scale = tl.load(scales_ptr + rn, mask=rn < N, other=0.0)
    out = acc.to(tl.float32) * scale.to(tl.float32)[None, :]
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, out.to(tl.float16), mask=mask_m & mask_n)
