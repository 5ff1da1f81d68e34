"""The values seen as one tall matrix [32 nnz, 32] behind a descriptor."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    n_blocks = N // BLOCK
    block_row = tl.program_id(0) % n_blocks
    pid_m = tl.program_id(0) // n_blocks
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK)
    nnz = tl.load(crow_indices_ptr + n_blocks)
    first = tl.load(crow_indices_ptr + block_row)
    last = tl.load(crow_indices_ptr + block_row + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    if nnz > 0:
        tall = tl.make_tensor_descriptor(values_ptr, shape=[nnz * BLOCK, BLOCK], strides=[BLOCK, 1], block_shape=[BLOCK, BLOCK])
        x_ptrs = x_ptr + tl.minimum(rows, M - 1)[:, None] * stride_xm + lanes[None, :] * stride_xk
        for at in range(first, last):
            column = tl.load(col_indices_ptr + at)
            x = tl.load(x_ptrs + column * BLOCK)
            w = tall.load([at * BLOCK, 0])
            acc = tl.dot(x, w.T, acc)
    columns = block_row * BLOCK + lanes
    tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn, acc.to(tl.float16), mask=rows[:, None] < M)


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32), 1)
