"""Even and odd blocks have an accumulator each."""
import triton
import triton.language as tl


@triton.jit
def one(x_rows, ok, col_ptr, val_ptr, i, stride_xk, acc, BLOCK: tl.constexpr):
    e = tl.arange(0, BLOCK)
    k = tl.load(col_ptr + i) * BLOCK + e
    x = tl.load(x_rows + k[None, :] * stride_xk, mask=ok, other=0.0)
    v = tl.load(val_ptr + i * BLOCK * BLOCK + e[:, None] + BLOCK * e[None, :])
    return tl.dot(x, v, acc)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 32}, num_warps=2)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    strips = N // BLOCK
    r = strips - 1 - tl.program_id(0) % strips
    m = tl.program_id(0) // strips * BLOCK_M + tl.arange(0, BLOCK_M)
    ok = (m < M)[:, None]
    x_rows = x_ptr + m[:, None] * stride_xm
    s = tl.load(crow_indices_ptr + r)
    n_blocks = tl.load(crow_indices_ptr + r + 1) - s
    even = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    odd = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for pair in range(n_blocks // 2):
        even = one(x_rows, ok, col_indices_ptr, values_ptr, s + 2 * pair, stride_xk, even, BLOCK)
        odd = one(x_rows, ok, col_indices_ptr, values_ptr, s + 2 * pair + 1, stride_xk, odd, BLOCK)
    if n_blocks % 2 == 1:
        even = one(x_rows, ok, col_indices_ptr, values_ptr, s + n_blocks - 1, stride_xk, even, BLOCK)
    y = (even + odd).to(tl.float16)
    tl.store(y_ptr + m[:, None] * stride_ym + (r * BLOCK + tl.arange(0, BLOCK))[None, :] * stride_yn, y, mask=ok)


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32),)
