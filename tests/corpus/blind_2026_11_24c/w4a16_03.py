"""Each slice takes a contiguous part of K."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 4}, num_warps=2, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=2, num_stages=3),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    tile = tl.program_id(0)
    slice_id = tl.program_id(1)
    tile_m = tile // tl.cdiv(N, BLOCK_N)
    tile_n = tile % tl.cdiv(N, BLOCK_N)
    offs_m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    m_ok = offs_m < M
    n_ok = offs_n < N

    per_slice = tl.cdiv(K, SPLIT_K)
    lo = slice_id * per_slice
    hi = min(K, lo + per_slice)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(lo, hi, BLOCK_K):
        k = k0 + offs_k
        k_ok = k < hi
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + k[None, :] * stride_xk, mask=m_ok[:, None] & k_ok[None, :], other=0.0)
        word = tl.load(
            qweight_ptr + (k0 // 8 + offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn,
            mask=k_ok[:, None] & n_ok[None, :], other=0,
        )
        nib = (word >> (4 * (offs_k % 8))[:, None]) & 0xF
        nib = tl.where(nib > 7, nib - 16, nib)
        acc = tl.dot(x, nib.to(tl.float16), acc)

    scales = tl.load(scales_ptr + offs_n, mask=n_ok, other=0.0)
    y = acc * scales.to(tl.float32)[None, :]
    ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.atomic_add(ptrs, y.to(tl.float16), mask=m_ok[:, None] & n_ok[None, :])
