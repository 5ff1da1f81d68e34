import triton
import triton.language as tl

DDS_MM_grid = lambda M, N, K, meta: (N // 32, triton.cdiv(M, meta["BLOCK_TOKENS"]))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_TOKENS": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_TOKENS": 128}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_TOKENS": 16}, num_warps=2, num_stages=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
):
    block_row, pid_t = tl.program_id(0), tl.program_id(1)
    t = pid_t * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    lane = tl.arange(0, BLOCK)
    x_base = x_ptr + t[:, None] * stride_xm + lane[None, :] * stride_xk
    # the block is read as [k, n] by swapping the roles of its two strides
    w_base = values_ptr + lane[:, None] * BLOCK + lane[None, :]

    first = tl.load(crow_indices_ptr + block_row)
    last = tl.load(crow_indices_ptr + block_row + 1)
    y = tl.zeros([BLOCK_TOKENS, BLOCK], dtype=tl.float32)
    for i in tl.range(first, last, num_stages=3):
        k = tl.load(col_indices_ptr + i) * BLOCK
        x = tl.load(x_base + k * stride_xk, mask=(t < M)[:, None], other=0.0)
        w = tl.load(w_base + i * (BLOCK * BLOCK))
        y = tl.dot(x, w)

    n = block_row * BLOCK + lane
    tl.store(y_ptr + t[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(t < M)[:, None])
