"""W4A16: one row of programs for each tile of tokens, and each of them makes two tiles of columns."""
import triton
import triton.language as tl


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["TILE_M"]), triton.cdiv(N, 2 * meta["TILE_N"]))


@triton.jit
def weights(qweight_ptr, k, n, K, N, stride_wk, stride_wn):
    """fp16 [k, n], bare integers -8 to 7."""
    word = tl.load(
        qweight_ptr + (k >> 3)[:, None] * stride_wk + n[None, :] * stride_wn,
        mask=(k[:, None] < K) & (n[None, :] < N),
        other=0,
    )
    v = (word >> ((k & 7) << 2)[:, None]) & 0xF
    v = tl.where(v > 8, v - 16, v)
    return v.to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"TILE_M": 16, "TILE_N": 32, "TILE_K": 32}, num_warps=2),
        triton.Config({"TILE_M": 32, "TILE_N": 16, "TILE_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    left = tl.program_id(1) * (2 * TILE_N) + tl.arange(0, TILE_N)
    right = left + TILE_N

    acc_left = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    acc_right = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k0 in range(0, K, TILE_K):
        k = k0 + tl.arange(0, TILE_K)
        x = tl.load(
            x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
            mask=(m[:, None] < M) & (k[None, :] < K),
            other=0.0,
        )
        acc_left = tl.dot(x, weights(qweight_ptr, k, left, K, N, stride_wk, stride_wn), acc_left)
        acc_right = tl.dot(x, weights(qweight_ptr, k, right, K, N, stride_wk, stride_wn), acc_right)

    s_left = tl.load(scales_ptr + left, mask=left < N, other=0.0)
    s_right = tl.load(scales_ptr + right, mask=right < N, other=0.0)
    y_rows = y_ptr + m[:, None] * stride_ym
    tl.store(y_rows + left[None, :] * stride_yn, (acc_left * s_left[None, :]).to(tl.float16), mask=(m[:, None] < M) & (left[None, :] < N))
    tl.store(y_rows + right[None, :] * stride_yn, (acc_right * s_right[None, :]).to(tl.float16), mask=(m[:, None] < M) & (right[None, :] < N))
