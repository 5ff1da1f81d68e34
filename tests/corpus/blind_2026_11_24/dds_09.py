import math

import triton
import triton.language as tl

LOG2_BLOCK = tl.constexpr(int(math.log2(32)))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 128}, num_warps=8, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({
    "EVEN_M": lambda args: args["M"] % args["BLOCK_M"] == 0,
    "CONTIGUOUS": lambda args: args["stride_xk"] == 1,
})
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr, EVEN_M: tl.constexpr, CONTIGUOUS: tl.constexpr,
):
    row = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    offs_n = (row << LOG2_BLOCK) + offs_b
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    y_mask = (offs_m < M)[:, None]

    begin = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)
    if begin == 0:
        tl.store(y_ptrs, tl.zeros((BLOCK_M, BLOCK), dtype=tl.float16), mask=y_mask)
        return

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(begin, end):
        offs_k = (tl.load(col_indices_ptr + i) << LOG2_BLOCK) + offs_b
        if CONTIGUOUS:
            x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :]
        else:
            x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
        if EVEN_M:
            x = tl.load(x_ptrs)
        else:
            x = tl.load(x_ptrs, mask=y_mask, other=0.0)
        w = tl.load(values_ptr + i * BLOCK * BLOCK + offs_b[None, :] * BLOCK + offs_b[:, None])
        acc += tl.dot(x, w)

    if EVEN_M:
        tl.store(y_ptrs, acc.to(tl.float16))
    else:
        tl.store(y_ptrs, acc.to(tl.float16), mask=y_mask)
