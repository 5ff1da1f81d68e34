"""Unrolled by hand: two tiles of K an iteration, each with its own accumulator."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0) % tl.cdiv(M, BLOCK_M)
    pid_n = tl.program_id(0) // tl.cdiv(M, BLOCK_M)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    safe_m = offs_m % M
    safe_n = offs_n % N
    lane = tl.arange(0, BLOCK_K)
    acc0 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc1 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    xa = x_ptr + safe_m[:, None] * stride_xm
    wa = qweight_ptr + safe_n[None, :] * stride_wn
    for k in range(0, K, 2 * BLOCK_K):
        k0 = k + lane
        k1 = k0 + BLOCK_K
        x0 = tl.load(xa + k0[None, :] * stride_xk, mask=k0[None, :] < K, other=0.0)
        w0 = tl.load(wa + k0[:, None] * stride_wk, mask=k0[:, None] < K, other=0)
        x1 = tl.load(xa + k1[None, :] * stride_xk, mask=k0[None, :] < K, other=0.0)
        w1 = tl.load(wa + k1[:, None] * stride_wk, mask=k0[:, None] < K, other=0)
        acc0 = tl.dot(x0, w0.to(tl.float16), acc0)
        acc1 = tl.dot(x1, w1.to(tl.float16), acc1)
    scale = tl.load(scales_ptr + safe_n).to(tl.float32)
    y = (acc0 + acc1) * scale[None, :]
    tl.store(
        y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, y.to(tl.float16),
        mask=(offs_m[:, None] < M) & (offs_n[None, :] < N),
    )
