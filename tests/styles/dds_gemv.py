"""DDS without tensor cores: a program makes one row and one block row, block by block."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return M, N // meta["BLOCK"]


@triton.autotune(configs=[triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr,
):
    m = tl.program_id(0)
    row = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    begin = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(begin, end):
        col = tl.load(col_indices_ptr + i)
        x = tl.load(x_ptr + m * stride_xm + (col * BLOCK + lane) * stride_xk).to(tl.float32)
        w = tl.load(values_ptr + i * BLOCK * BLOCK + lane[:, None] * BLOCK + lane[None, :]).to(tl.float32)
        acc += tl.sum(x[None, :] * w, axis=1)
    tl.store(y_ptr + m * stride_ym + (row * BLOCK + lane) * stride_yn, acc.to(tl.float16))
