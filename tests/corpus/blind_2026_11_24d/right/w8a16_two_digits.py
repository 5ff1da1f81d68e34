"""W8A16: a byte as two digits to the base of 16, b = 16 high + low: two products, put together in fp32."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    i = tl.program_id(0) // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    high = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    step = tl.program_id(1)
    while step * BLOCK_K < K:
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + i[:, None] * stride_xm + k[None, :] * stride_xk, mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(qweight_ptr + k[:, None] * stride_wk + j[None, :] * stride_wn, mask=(k[:, None] < K) & (j[None, :] < N), other=0)
        high = tl.dot(x, (b >> 4).to(tl.float16), high)
        low = tl.dot(x, (b & 15).to(tl.float16), low)
        step += SPLIT_K
    s = tl.load(scales_ptr + j, mask=j < N, other=0.0).to(tl.float32)
    y = ((16.0 * high + low) * s[None, :]).to(tl.float16)
    at = y_ptr + i[:, None] * stride_ym + j[None, :] * stride_yn
    keep = (i[:, None] < M) & (j[None, :] < N)
    if SPLIT_K == 1:
        tl.store(at, y, mask=keep)
    else:
        tl.atomic_add(at, y, mask=keep)
