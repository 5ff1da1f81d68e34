"""Full tiles of K need no mask; what is left of K has a body of its own after the loop."""
import triton
import triton.language as tl


@triton.jit
def quantised(x, s):
    t = x.to(tl.float32) / s
    t = tl.where(t > 0, t + 0.5, t)
    t = tl.minimum(tl.maximum(t, -128.0), 127.0)
    return t.to(tl.int8)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 64}, num_warps=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4),
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
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    # wrap around instead of masks for rows and columns
    rm = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    rn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % M
    rk = tl.arange(0, BLOCK_K)
    s_in = tl.load(input_scale_ptr + rm)[:, None]
    s_out = tl.load(weight_scale_ptr + rn)[None, :]
    a_ptrs = x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk
    b_ptrs = qweight_ptr + rk[:, None] * stride_wk + rn[None, :] * stride_wn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    full = K // BLOCK_K
    for _ in range(0, full):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        acc += tl.dot(quantised(a, s_in), b)
        a_ptrs += BLOCK_K * stride_xk
        b_ptrs += BLOCK_K * stride_wk
    rest = K - full * BLOCK_K
    if rest > 0:
        a = tl.load(a_ptrs, mask=rk[None, :] < rest, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < rest, other=0)
        acc += tl.dot(quantised(a, s_in), b)

    y = acc.to(tl.float32) * s_in * s_out
    om = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    on = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(
        y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn,
        y.to(tl.float16),
        mask=(om[:, None] < M) & (on[None, :] < N),
    )
