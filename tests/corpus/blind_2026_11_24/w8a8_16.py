import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_am = offs_m % M
    offs_bn = offs_n % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = x_ptr + offs_am[:, None] * stride_xm + offs_k[None, :] * stride_xk
    b_ptrs = qweight_ptr + offs_bn[None, :] * stride_wn + offs_k[:, None] * stride_wk
    a_scale = tl.load(input_scale_ptr + offs_am)
    b_scale = tl.load(weight_scale_ptr + offs_m % N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        ok = offs_k < K - i * BLOCK_K
        a = tl.load(a_ptrs, mask=ok[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=ok[:, None], other=0)
        t = a.to(tl.float32) / a_scale[:, None]
        t = tl.minimum(tl.maximum(t, -128.0), 127.0)
        acc += tl.dot(t.to(tl.int8), b)
        a_ptrs += BLOCK_K * stride_xk
        b_ptrs += BLOCK_K * stride_wk
    c = acc.to(tl.float32) * a_scale[:, None] * b_scale[None, :]
    c_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(c_ptrs, c.to(tl.float16), mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])
