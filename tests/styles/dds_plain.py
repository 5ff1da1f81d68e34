"""Lab 3, DDS: dense X times a block-sparse W (BSR, 32 x 32 blocks), one block row of W per program."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16}, num_warps=2, num_stages=2),
        triton.Config({"BLOCK_M": 32}, num_warps=4, num_stages=2),
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
    BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    pid_m = tl.program_id(0)
    row = tl.program_id(1)  # block row of W = 32 columns of Y

    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    offs_n = row * BLOCK + offs_b

    # the nonzero blocks of this block row are values[start:end]
    start = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(start, end):
        col = tl.load(col_indices_ptr + i)
        offs_k = col * BLOCK + offs_b
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=offs_m[:, None] < M, other=0.0)
        # the block is stored [n, k]
        w = tl.load(values_ptr + i * BLOCK * BLOCK + offs_b[:, None] * BLOCK + offs_b[None, :])
        acc += tl.dot(x, tl.trans(w))

    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < M)
