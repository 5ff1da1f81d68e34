"""W8A8 with hand-made prefetching: the tiles of the next step are asked for before this step's product."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4),
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
    grid_m = tl.cdiv(M, BLOCK_M)
    offs_m = pid % grid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid // grid_m * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    in_m = (offs_m < M)[:, None]
    in_n = (offs_n < N)[None, :]

    a_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    b_ptrs = qweight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn
    inv = 1.0 / tl.load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)

    here = offs_k < K
    a = tl.load(a_ptrs, mask=in_m & here[None, :], other=0.0)
    b = tl.load(b_ptrs, mask=here[:, None] & in_n, other=0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        a_ptrs += BLOCK_K * stride_xk
        b_ptrs += BLOCK_K * stride_wk
        there = offs_k < K - k
        a_next = tl.load(a_ptrs, mask=in_m & there[None, :], other=0.0)
        b_next = tl.load(b_ptrs, mask=there[:, None] & in_n, other=0)
        t = a.to(tl.float32) * inv[:, None]
        t = tl.floor(tl.clamp(t, -128.0, 127.0) + 0.5)
        acc += tl.dot(t.to(tl.int8), b)
        a = a_next
        b = b_next

    s_m = tl.load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)
    s_n = tl.load(weight_scale_ptr + offs_n, mask=offs_n < N, other=1.0)
    y = acc * (s_m[:, None] * s_n[None, :])
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, y.to(tl.float16), mask=in_m & in_n)
