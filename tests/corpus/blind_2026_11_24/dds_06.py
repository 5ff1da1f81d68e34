import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=8),
        triton.Config({"BLOCK_M": 16}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid_m = tl.program_id(0)
    row = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    bounds = tl.load(crow_indices_ptr + row + tl.arange(0, 2))
    start = tl.min(bounds, axis=0)
    end = tl.max(bounds, axis=0)

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(start, end):
        col = tl.load(col_indices_ptr + i)
        x = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + (col * BLOCK + offs_b)[None, :] * stride_xk,
            mask=offs_m[:, None] < M, other=0.0,
        )
        w = tl.load(values_ptr + (i * BLOCK + offs_b[:, None]) * BLOCK + offs_b[None, :])
        # [m, 1, k] * [1, n, k] summed over k
        acc += tl.sum(x[:, None, :].to(tl.float32) * w[None, :, :].to(tl.float32), axis=1)

    offs_n = row * BLOCK + offs_b
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < M)
