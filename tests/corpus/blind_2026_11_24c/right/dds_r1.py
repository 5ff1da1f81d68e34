"""Blocks from last to first, X by a block pointer that is made anew, two tiles of rows a program."""
import triton
import triton.language as tl


@triton.jit
def rows_times_block(x_ptr, m0, c, M, K, sm, sk, block, acc, BLOCK: tl.constexpr, BLOCK_M: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (M, K), (sm, sk), (m0, c * BLOCK), (BLOCK_M, BLOCK), (1, 0))
    return tl.dot(tl.load(p, boundary_check=(0, 1), padding_option="zero"), block, acc)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    r = tl.program_id(1)
    upper = tl.program_id(0) * 2 * BLOCK_M
    lower = upper + BLOCK_M
    lo = tl.load(crow_indices_ptr + r)
    i = tl.load(crow_indices_ptr + r + 1) - 1
    e = tl.arange(0, BLOCK)
    a = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    b = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    while i >= lo:
        c = tl.load(col_indices_ptr + i)
        block = tl.load(values_ptr + (i * BLOCK + e[None, :]) * BLOCK + e[:, None])
        a = rows_times_block(x_ptr, upper, c, M, K, stride_xm, stride_xk, block, a, BLOCK, BLOCK_M)
        b = rows_times_block(x_ptr, lower, c, M, K, stride_xm, stride_xk, block, b, BLOCK, BLOCK_M)
        i -= 1
    ya = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (upper, r * BLOCK), (BLOCK_M, BLOCK), (1, 0))
    tl.store(ya, a.to(tl.float16), boundary_check=(0, 1))
    yb = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (lower, r * BLOCK), (BLOCK_M, BLOCK), (1, 0))
    tl.store(yb, b.to(tl.float16), boundary_check=(0, 1))


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, 2 * meta["BLOCK_M"]), N // 32)
