import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}, num_warps=2), triton.Config({"BLOCK_M": 64}, num_warps=4)],
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
    pid_m = tl.program_id(0)
    pid_r = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK)
    row_mask = rows[:, None] < M

    b0 = tl.load(crow_indices_ptr + pid_r)
    b1 = tl.load(crow_indices_ptr + pid_r + 1)

    out = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(b0, b1):
        col = tl.load(col_indices_ptr + b)
        x_cols = col + lanes
        x = tl.load(x_ptr + rows[:, None] * stride_xm + x_cols[None, :] * stride_xk, mask=row_mask, other=0.0)
        # values[b] is [out, in]; read it as [in, out]
        w = tl.load(values_ptr + b * BLOCK * BLOCK + lanes[:, None] + lanes[None, :] * BLOCK)
        out = tl.dot(x, w, out)

    y_cols = pid_r * BLOCK + lanes
    tl.store(y_ptr + rows[:, None] * stride_ym + y_cols[None, :] * stride_yn, out.to(tl.float16), mask=row_mask)
