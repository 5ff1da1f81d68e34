"""W8A8 on the bfloat16 tensor cores: eight bits hold every quantised value, and fp32 every partial sum."""
import triton
import triton.language as T


@triton.autotune([triton.Config({"BM": 16, "BN": 32, "BK": 64}, num_warps=2), triton.Config({"BM": 32, "BN": 64, "BK": 32})],
                 key=["M", "N", "K"])
@triton.jit
def W8A8_MM(x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
            stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
            BM: T.constexpr, BN: T.constexpr, BK: T.constexpr):
    pid_m, pid_n = T.program_id(0), T.program_id(1)
    m = pid_m * BM + T.arange(0, BM)
    n = pid_n * BN + T.arange(0, BN)
    mask_m, mask_n = m < M, n < N
    scale = T.load(input_scale_ptr + m, mask=mask_m, other=1)
    total = T.zeros((BM, BN), dtype=T.int32)
    for step in T.range(0, K, BK, num_stages=2):
        k = step.to(T.int64) + T.arange(0, BK)
        x = T.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=mask_m[:, None] & (k < K)[None, :], other=0)
        w = T.load(qweight_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn, mask=(k < K)[:, None] & mask_n[None, :], other=0)
        q = T.floor(x.to(T.float32) / scale[:, None] + 0.5)
        q = max(min(q, 127.0), -128.0).to(T.bfloat16)
        total += T.dot(q, w.to(T.bfloat16)).to(T.int32)
    w_scale = T.load(weight_scale_ptr + n, mask=mask_n, other=1)
    y = total.to(T.float32) * scale[:, None] * w_scale[None, :]
    T.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=mask_m[:, None] & mask_n[None, :])


def W8A8_MM_grid(M, N, K, meta):
    return triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"])
