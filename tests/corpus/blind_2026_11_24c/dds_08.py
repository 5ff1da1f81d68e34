"""A few programs walk over all (tile, block row) pairs; the loop over blocks counts from 0."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return (8, 1, 1)


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
    strips = N // BLOCK
    jobs = tl.cdiv(M, BLOCK_M) * strips
    e = tl.arange(0, BLOCK)
    for job in range(tl.program_id(0), jobs, tl.num_programs(0)):
        strip = job % strips
        m = job % tl.cdiv(M, BLOCK_M) * BLOCK_M + tl.arange(0, BLOCK_M)
        keep = (m < M)[:, None]
        base = tl.load(crow_indices_ptr + strip)
        count = tl.load(crow_indices_ptr + strip + 1) - base
        acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
        for i in range(count):
            b = base + i
            c = tl.load(col_indices_ptr + b)
            x = tl.load(x_ptr + m[:, None] * stride_xm + (c * BLOCK + e)[None, :] * stride_xk, mask=keep, other=0.0)
            blk = tl.load(values_ptr + b * BLOCK * BLOCK + e[:, None] * BLOCK + e[None, :])
            acc += tl.dot(x, tl.trans(blk))
        yp = y_ptr + m[:, None] * stride_ym + (strip * BLOCK + e)[None, :] * stride_yn
        tl.store(yp, acc.to(tl.float16), mask=keep)
