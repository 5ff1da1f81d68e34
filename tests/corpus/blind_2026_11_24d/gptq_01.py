"""GPTQ: words opened along a third axis, with a scale and a zero point for each word."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr,
    M, N, K, group_size,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_sg, stride_sn,
    stride_zg, stride_zn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    WORDS: tl.constexpr = BLOCK_K // 8
    m = tl.program_id(0) // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    places = 4 * tl.arange(0, 8)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        j = k0 // 8 + tl.arange(0, WORDS)
        live = (j[:, None] < K // 8) & (n[None, :] < N)
        word = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=live, other=0)
        g = k0 // group_size
        scale = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=n < N, other=0.0)
        packed = tl.load(zeros_ptr + g * stride_zg + n // 8 * stride_zn, mask=n < N, other=0)
        zero = ((packed >> (4 * (n % 8))) & 0xF) + 1
        q = (word[:, None, :] >> places[None, :, None]) & 0xF
        w = (q - zero[None, None, :]).to(tl.float16) * scale[None, None, :]
        acc = tl.dot(x, tl.reshape(w, (BLOCK_K, BLOCK_N)), acc)
    y_ptrs = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
