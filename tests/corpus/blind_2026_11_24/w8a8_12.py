import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 4, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
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
    num_n = tl.cdiv(N, BLOCK_N)
    pid_m = pid // num_n
    pid_n = pid % num_n
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    sx = tl.load(input_scale_ptr + m, mask=m < M, other=1.0)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.int32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
                    mask=(m < M)[:, None] & (k < K)[None, :], other=0.0).to(tl.float32)
        w = tl.load(qweight_ptr + n[:, None] * stride_wn + k[None, :] * stride_wk,
                    mask=(n < N)[:, None] & (k < K)[None, :], other=0)
        q = x / sx[:, None]
        q = tl.where(q >= 0, tl.floor(q + 0.5), tl.ceil(q - 0.5))
        q = tl.clamp(q, -128.0, 127.0).to(tl.int8)
        acc += tl.sum(q[:, None, :] * w[None, :, :], axis=2)
    sw = tl.load(weight_scale_ptr + n, mask=n < N, other=0.0)
    y = acc.to(tl.float32) * (sx[:, None] * sw[None, :])
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y,
             mask=(m < M)[:, None] & (n < N)[None, :])


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
