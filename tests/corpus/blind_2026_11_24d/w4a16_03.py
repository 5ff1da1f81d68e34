"""W4A16, split-K with slices that take turns; opening the words is a helper's work."""
import triton
import triton.language as tl


@triton.jit
def open_word(packed, k):
    """The nibble of each k, signed: to the top of the word, and down again with its sign."""
    up = 28 - 4 * (k % 8)
    return ((packed << up) >> 28).to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=3),
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
    part = tl.program_id(1)
    across = tl.cdiv(N, BLOCK_N)
    rows = (tile // across) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    scale = tl.load(scales_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(part, tl.cdiv(K, BLOCK_K), SPLIT_K):
        ks = step * BLOCK_K + tl.arange(0, BLOCK_K)
        x_at = x_ptr + rows[:, None] * stride_xm + ks[None, :] * stride_xk
        w_at = qweight_ptr + (ks // 8)[:, None] * stride_wk + cols[None, :] * stride_wn
        x = tl.load(x_at, mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        packed = tl.load(w_at, mask=(ks[:, None] < K) & (cols[None, :] < N), other=0)
        acc += tl.dot(x, open_word(packed, ks[:, None]))

    if part == 0:  # once is enough
        acc = acc * scale[None, :]
    y_at = y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn
    tl.atomic_add(y_at, acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N), sem="relaxed")
