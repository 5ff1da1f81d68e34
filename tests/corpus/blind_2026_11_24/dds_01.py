import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 32}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    m0 = tl.program_id(0) * BLOCK_M
    row = tl.program_id(1)
    offs_m = m0 + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    begin = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)
    nnz = tl.load(crow_indices_ptr + N // BLOCK)

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    if nnz > 0:
        w_desc = tl.make_tensor_descriptor(values_ptr, [nnz * BLOCK, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
        if (stride_xk == 1) & (stride_xm % 8 == 0) & (x_ptr.to(tl.int64) % 16 == 0):
            x_desc = tl.make_tensor_descriptor(x_ptr, [M, K], [stride_xm, 1], [BLOCK_M, BLOCK])
            for i in range(begin, end):
                x = x_desc.load([m0, tl.load(col_indices_ptr + i) * BLOCK])
                acc = tl.dot(x, w_desc.load([i * BLOCK, 0]).T, acc)
        else:
            for i in range(begin, end):
                offs_k = tl.load(col_indices_ptr + i) * BLOCK + offs_b
                x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
                x = tl.load(x_ptrs, mask=offs_m[:, None] < M, other=0.0)
                w = w_desc.load([i * BLOCK, 0])
                acc = tl.dot(x, w, acc)

    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + (row * BLOCK + offs_b)[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < M)
