"""DDS, the loop runs down a pointer of blocks and a pointer of column indices side by side."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=3),
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
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs = tl.arange(0, BLOCK)
    block_row = tl.program_id(1)
    begin = tl.load(crow_indices_ptr + block_row)
    end = tl.load(crow_indices_ptr + block_row + 1)

    cols = col_indices_ptr + begin
    blocks = values_ptr + begin * BLOCK * BLOCK + offs[:, None] * BLOCK + offs[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for _ in range(begin, end - 1):
        k = tl.load(cols) * BLOCK + offs
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + k[None, :], mask=(offs_m < M)[:, None], other=0.0)
        w = tl.load(blocks)
        acc += tl.dot(x, w.T)
        cols += 1
        blocks += BLOCK

    y = acc.to(tl.float16)
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + (block_row * BLOCK + offs)[None, :] * stride_yn
    tl.store(y_ptrs, y, mask=(offs_m < M)[:, None])
