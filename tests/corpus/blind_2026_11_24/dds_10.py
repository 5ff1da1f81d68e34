import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn, BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    """Two blocks a turn, the odd one out masked."""
    r = tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = tl.load(crow_indices_ptr + r)
    count = tl.load(crow_indices_ptr + r + 1) - first
    two = tl.arange(0, 2 * BLOCK)
    which, within = two // BLOCK, two % BLOCK
    xk = two // 2
    n = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for p in range(0, count, 2):
        b = first + p + which
        there = p + which < count
        col = tl.load(col_indices_ptr + b, mask=there, other=0)
        x = tl.load(x_ptr + m[:, None] * stride_xm + (col * BLOCK + xk)[None, :] * stride_xk, mask=(m < M)[:, None] & there[None, :], other=0.0)
        v = tl.load(values_ptr + b[:, None] * BLOCK * BLOCK + n[None, :] * BLOCK + within[:, None], mask=there[:, None], other=0.0)
        acc = tl.dot(x, v, acc)
    tl.store(y_ptr + m[:, None] * stride_ym + (r * BLOCK + n)[None, :] * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None])
