"""DDS with block pointers for the blocks and for Y."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 128}, num_warps=4)],
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
    tile, br = tl.program_id(0), tl.program_id(1)
    here = tl.load(crow_indices_ptr + br)
    stop = tl.load(crow_indices_ptr + br + 1)
    mm = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    cc = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(here, stop):
        block = tl.make_block_ptr(values_ptr + b * 1024, (BLOCK, BLOCK), (BLOCK, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
        k = tl.load(col_indices_ptr + b) * BLOCK + cc
        x = tl.load(x_ptr + mm[:, None] * stride_xm + k[None, :] * stride_xk, mask=mm[:, None] < M, other=0.0)
        acc = tl.dot(x, tl.load(block), acc)
    y = tl.make_block_ptr(y_ptr, (M, N), (N, stride_yn), (tile * BLOCK_M, br * BLOCK), (BLOCK_M, BLOCK), (1, 0))
    tl.store(y, acc.to(tl.float16), boundary_check=(0,))
