"""Products without tl.dot, column by column of the block."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pm = tl.program_id(0)
    pr = tl.program_id(1)
    m = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    r = tl.arange(0, BLOCK)
    ok = m < M
    s = tl.load(crow_indices_ptr + pr)
    n_blk = tl.load(crow_indices_ptr + pr + 1) - s
    cols = col_indices_ptr + s
    vals = values_ptr + s * BLOCK * BLOCK
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for b in range(n_blk):
        k0 = tl.load(cols) * BLOCK
        x = tl.load(x_ptr + m[:, None] * stride_xm + (k0 + r)[None, :] * stride_xk, mask=ok[:, None], other=0.0).to(tl.float32)
        w = tl.load(vals + r[:, None] * BLOCK + r[None, :]).to(tl.float32)
        acc += tl.sum(x[:, None, :] * w[None, :, :], axis=1)
        cols += 1
        vals += BLOCK * BLOCK
    yo = y_ptr + m[:, None] * stride_ym + (pr * BLOCK + r)[None, :] * stride_yn
    tl.store(yo, acc.to(tl.float16), mask=ok[:, None])
