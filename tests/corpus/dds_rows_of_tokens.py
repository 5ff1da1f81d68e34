"""Lab 3, first try."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32}, num_warps=4, num_stages=2)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K, stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK + tl.arange(0, BLOCK)
    offs_b = tl.arange(0, BLOCK)
    start = tl.load(crow_indices_ptr + pid_m)
    end = tl.load(crow_indices_ptr + pid_m + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(start, end):
        col = tl.load(col_indices_ptr + i)
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + (col * BLOCK + offs_b)[None, :] * stride_xk,
                    mask=offs_m[:, None] < M, other=0.0)
        w = tl.load(values_ptr + i * BLOCK * BLOCK + offs_b[:, None] * BLOCK + offs_b[None, :])
        acc += tl.dot(x, w)
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < M)
