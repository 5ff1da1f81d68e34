import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 128}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=8, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0})
@triton.jit
def W8A8_MM(
    x_ptr,
    qweight_ptr,
    input_scale_ptr,
    weight_scale_ptr,
    y_ptr,
    M,
    N,
    K,
    stride_xm,
    stride_xk,
    stride_wk,
    stride_wn,
    stride_ym,
    stride_yn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK_K), BLOCK_K), BLOCK_K)
    mask_m = offs_m < M
    mask_n = offs_n < N

    scale_m = tl.load(input_scale_ptr + offs_m, mask=mask_m, other=1.0)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.int32)
    for k in tl.range(0, K, BLOCK_K, num_stages=2):
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + (k + offs_k)[None, :] * stride_xk
        w_ptrs = qweight_ptr + (k + offs_k)[:, None] * stride_wk + offs_n[None, :] * stride_wn
        if EVEN_K:
            x = tl.load(x_ptrs, mask=mask_m[:, None], other=0.0)
            w = tl.load(w_ptrs, mask=mask_n[None, :], other=0, eviction_policy="evict_last")
        else:
            mask_k = k + offs_k < K
            x = tl.load(x_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
            w = tl.load(w_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0, eviction_policy="evict_last")
        q = libdevice.floor(x.to(tl.float32) / scale_m[:, None])
        q = tl.minimum(tl.maximum(q, -128), 127)
        acc = tl.dot(q.to(tl.int8), w, acc, out_dtype=tl.int32)

    scale_n = tl.load(weight_scale_ptr + offs_n, mask=mask_n, other=1.0)
    y = (acc.to(tl.float32) * scale_m[:, None]) * scale_n[None, :]
    tl.store(
        y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn,
        y.to(tl.float16),
        mask=mask_m[:, None] & mask_n[None, :],
    )
