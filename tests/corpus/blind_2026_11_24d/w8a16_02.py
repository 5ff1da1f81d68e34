"""W8A16: bytes become fp16 by way of their bits. 0x6400 | u is the number 1024 + u."""
import triton
import triton.language as tl


@triton.jit
def half_from_byte(b):
    u = (b ^ -128).to(tl.int16)  # b + 128
    bits = u | 0x6400
    return bits.to(tl.float16, bitcast=True) - 1152.0


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
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
    pid_n = pid % tl.cdiv(N, BLOCK_N)
    pid_m = pid // tl.cdiv(N, BLOCK_N)
    i = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    j = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    scale = tl.load(scales_ptr + j, mask=j < N, other=1.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + i[:, None] * stride_xm + k[None, :] * stride_xk, mask=(i < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(qweight_ptr + k[:, None] * stride_wk + j[None, :] * stride_wn, mask=(k < K)[:, None] & (j < N)[None, :], other=0)
        acc += tl.dot(x, half_from_byte(b))
    acc = acc * scale[None, :]
    tl.store(y_ptr + i[:, None] * stride_ym + j[None, :] * stride_yn, acc.to(tl.float16), mask=(i < M)[:, None] & (j < N)[None, :])
