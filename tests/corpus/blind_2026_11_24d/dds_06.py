"""DDS: the first block of a row starts the sum, the others are added to it."""
import triton
import triton.language as tl


@triton.jit
def load_pair(x_ptr, values_ptr, col_indices_ptr, b, m, M, stride_xm, stride_xk, BLOCK: tl.constexpr):
    e = tl.arange(0, BLOCK)
    col = tl.load(col_indices_ptr + b)
    xs = tl.load(x_ptr + m[:, None] * stride_xm + (col * BLOCK + e[None, :]) * stride_xk, mask=m[:, None] < M, other=0.0)
    vs = tl.load(values_ptr + b * BLOCK * BLOCK + e[:, None] * BLOCK + e[None, :])
    return xs, vs.T


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=2),
    ],
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
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    br = tl.program_id(1)
    lo = tl.load(crow_indices_ptr + br)
    hi = tl.load(crow_indices_ptr + br + 1)
    xs, vs = load_pair(x_ptr, values_ptr, col_indices_ptr, lo, m, M, stride_xm, stride_xk, BLOCK)
    total = tl.dot(xs, vs)
    for b in range(lo + 1, hi):
        xs, vs = load_pair(x_ptr, values_ptr, col_indices_ptr, b, m, M, stride_xm, stride_xk, BLOCK)
        total += tl.dot(xs, vs)
    n = br * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, total.to(tl.float16), mask=m[:, None] < M)
