"""DDS: the blocks of a row from the last to the first, Y^T = W X^T, grid turned over; a program does two tiles of tokens."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return (N // 32, triton.cdiv(M, 2 * meta["BLOCK_M"]))


@triton.jit
def add_block(acc, block, x_ptr, column, m, M, stride_xm, stride_xk, BLOCK: tl.constexpr):
    k = column + tl.arange(0, BLOCK)
    xt = tl.load(x_ptr + k[:, None] * stride_xk + m[None, :] * stride_xm, mask=m[None, :] < M, other=0.0)
    return tl.dot(block, xt, acc)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}, num_warps=4), triton.Config({"BLOCK_M": 32}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    br = tl.program_id(0)
    upper = 2 * tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    lower = upper + BLOCK_M
    flat = tl.arange(0, BLOCK * BLOCK)
    floor = tl.load(crow_indices_ptr + br)
    b = tl.load(crow_indices_ptr + br + 1)
    one = tl.zeros((BLOCK, BLOCK_M), dtype=tl.float32)
    two = tl.zeros((BLOCK, BLOCK_M), dtype=tl.float32)
    while b > floor:
        b -= 1
        block = tl.reshape(tl.load(values_ptr + b * (BLOCK * BLOCK) + flat), (BLOCK, BLOCK))
        column = tl.load(col_indices_ptr + b) * BLOCK
        one = add_block(one, block, x_ptr, column, upper, M, stride_xm, stride_xk, BLOCK)
        two = add_block(two, block, x_ptr, column, lower, M, stride_xm, stride_xk, BLOCK)
    n = br * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + n[:, None] * stride_yn + upper[None, :] * stride_ym, one.to(tl.float16), mask=upper[None, :] < M)
    tl.store(y_ptr + n[:, None] * stride_yn + lower[None, :] * stride_ym, two.to(tl.float16), mask=lower[None, :] < M)
