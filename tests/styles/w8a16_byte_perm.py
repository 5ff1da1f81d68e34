"""Bonus lab, W8A16: bytes put beside 0x64 by libdevice's byte_perm, which makes them fp16 numbers from 1024 on."""
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=3),
    ],
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
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BLOCK_N)
    rm = pid // num_n * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid % num_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        kk = k + rk
        x_ptrs = x_ptr + rm[:, None] * stride_xm + kk[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        w_ptrs = qweight_ptr + kk[:, None] * stride_wk + rn[None, :] * stride_wn
        w = tl.load(w_ptrs, mask=(kk[:, None] < K) & (rn[None, :] < N), other=0)
        u = (w.to(tl.int32) & 255) ^ 128
        bits = libdevice.byte_perm(u, tl.full((BLOCK_K, BLOCK_N), 0x64646464, tl.int32), tl.full((BLOCK_K, BLOCK_N), 0x7540, tl.int32))
        h = (bits & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True) - 1152.0
        acc += tl.dot(x, h.to(tl.float16))

    s = tl.load(scales_ptr + rn, mask=rn < N, other=0.0)
    y = acc * s[None, :]

    y_ptrs = y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn
    tl.store(y_ptrs, y.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))
