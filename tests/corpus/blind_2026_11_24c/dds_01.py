import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=2, num_stages=2),
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
    tile = tl.program_id(0)
    brow = tl.program_id(1)
    m0 = tile * BLOCK_M
    start = tl.load(crow_indices_ptr + brow)
    stop = tl.load(crow_indices_ptr + brow + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(start, stop):
        c = tl.load(col_indices_ptr + b)
        xb = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (m0, c), (BLOCK_M, BLOCK), (1, 0))
        # the block as [c, r]
        vb = tl.make_block_ptr(values_ptr + b * BLOCK * BLOCK, (BLOCK, BLOCK), (1, BLOCK), (0, 0), (BLOCK, BLOCK), (0, 1))
        x = tl.load(xb, boundary_check=(0,), padding_option="zero")
        acc = tl.dot(x, tl.load(vb), acc)
    yb = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (m0, brow * BLOCK), (BLOCK_M, BLOCK), (1, 0))
    tl.store(yb, acc.to(tl.float16), boundary_check=(0,))
