from itertools import *

import triton
from triton.language import *

SIZES = [dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=64, SPLIT_K=1) for m, n in product((16, 32), (32, 64))]


@triton.autotune(configs=[triton.Config(sizes, num_warps=4) for sizes in SIZES], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: constexpr, BLOCK_N: constexpr, BLOCK_K: constexpr, SPLIT_K: constexpr,
):
    pid = program_id(0)
    num_n = cdiv(N, BLOCK_N)
    offs_m = pid // num_n * BLOCK_M + arange(0, BLOCK_M)
    offs_n = pid % num_n * BLOCK_N + arange(0, BLOCK_N)
    s = load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)
    acc = zeros((BLOCK_M, BLOCK_N), dtype=int32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + arange(0, BLOCK_K)
        x = load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        w = load(qweight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0)
        q = minimum(maximum(floor(x.to(float32) / s[:, None] + 0.5), -128.0), 127.0)
        acc += dot(q.to(int8), w)
    y = acc.to(float32) * s[:, None] * load(weight_scale_ptr + offs_n, mask=offs_n < N, other=0.0)[None, :]
    store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, y.to(float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
