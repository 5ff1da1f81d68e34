"""DDS with block pointers for X, for the block of W and for Y."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 64}, num_warps=4), triton.Config({"BLOCK_M": 16}, num_warps=2)],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    crow = tl.load(crow_indices_ptr + pid_n)
    blocks = tl.load(crow_indices_ptr + pid_n + 1) - crow

    x_row = tl.make_block_ptr(
        x_ptr, (M, K), (stride_xm, stride_xk), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK), (1, 0)
    )
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(blocks):
        k = tl.load(col_indices_ptr + crow + b) * BLOCK
        x = tl.load(tl.advance(x_row, (0, k)), boundary_check=(0,), padding_option="zero")
        # the transpose of the stored block: [k, n] with strides (1, BLOCK)
        w_block = tl.make_block_ptr(
            values_ptr + (crow + b) * BLOCK * BLOCK,
            (BLOCK, BLOCK), (1, BLOCK), (0, 0), (BLOCK, BLOCK), (0, 1),
        )
        acc += tl.dot(x, tl.load(w_block))

    y_block = tl.make_block_ptr(
        y_ptr, (M, N), (stride_ym, stride_yn), (pid_m * BLOCK_M, pid_n * BLOCK), (BLOCK_M, BLOCK), (1, 0)
    )
    tl.store(y_block, acc.to(tl.float16), boundary_check=(0,))
