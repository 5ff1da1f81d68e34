"""DDS on the default grid: axis 0 the tiles of tokens, axis 1 the block rows."""
import triton
import triton.language as tl


@triton.jit
def gather_x(x_rows, column, stride_xk, keep, BLOCK: tl.constexpr):
    c = column * BLOCK + tl.arange(0, BLOCK)
    return tl.load(x_rows + c[None, :] * stride_xk, mask=keep, other=0.0)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 64}, num_warps=4)],
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
    block_row = tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    keep = (m < M)[:, None]
    x_rows = x_ptr + m[:, None] * stride_xm
    r = tl.arange(0, BLOCK)
    begin = tl.load(crow_indices_ptr + block_row)
    count = tl.load(crow_indices_ptr + block_row + 1) - begin

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(count):
        column = tl.load(col_indices_ptr + i)
        x = gather_x(x_rows, column, stride_xk, keep, BLOCK)
        block = tl.load(values_ptr + (begin + i) * BLOCK * BLOCK + r[:, None] * BLOCK + r[None, :])
        acc = tl.dot(x, tl.trans(block), acc)

    n = block_row * BLOCK + r
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=keep)
