"""DDS with 64-bit indices from loop variables and counters, a block's columns by tl.range, and early return."""
import triton
import triton.language as tl


@triton.jit
def block_bounds(crow_indices_ptr, row):
    return tl.load(crow_indices_ptr + row), tl.load(crow_indices_ptr + row + 1)


@triton.autotune([triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 64})], key=["M", "N"])
@triton.jit
def DDS_MM(x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
           stride_xm, stride_xk, stride_ym, stride_yn, BLOCK: tl.constexpr, BLOCK_M: tl.constexpr):
    AREA: tl.constexpr = BLOCK * BLOCK
    row = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    b = tl.arange(0, BLOCK)
    to = y_ptr + m[:, None] * stride_ym + (row * BLOCK + b)[None, :] * stride_yn
    first, last = block_bounds(crow_indices_ptr, row)
    if first == last:
        tl.store(to, tl.zeros((BLOCK_M, BLOCK), tl.float16), mask=m[:, None] < M)
        return
    y = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    seen = 0
    for i in tl.range(first, last):
        k = tl.load(col_indices_ptr + i.to(tl.int64)).to(tl.int64) * BLOCK + b
        w = tl.load(values_ptr + i.to(tl.int64) * AREA + b[:, None] * BLOCK + b[None, :])
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m < M)[:, None], other=0.0)
        y = tl.dot(x, w.T, acc=y)
        seen += 1
    y = tl.where(seen.to(tl.int64) > 0, y, 0.0)
    tl.store(to, y, mask=m[:, None] < M)
