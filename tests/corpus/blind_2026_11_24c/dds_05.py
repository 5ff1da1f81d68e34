"""Two blocks an iteration, side by side as one product of depth 64."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    TWO: tl.constexpr = 2 * BLOCK
    om = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    brow = tl.program_id(1)
    on = tl.arange(0, BLOCK)
    deep = tl.arange(0, TWO)
    which = deep // BLOCK
    inner = deep % BLOCK
    lo = tl.load(crow_indices_ptr + brow)
    hi = tl.load(crow_indices_ptr + brow + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for p in range(lo, hi, 2):
        b = p + which
        have = b <= hi
        col = tl.load(col_indices_ptr + b, mask=have, other=0)
        k = col * BLOCK + inner
        x = tl.load(x_ptr + om[:, None] * stride_xm + k[None, :] * stride_xk, mask=(om < M)[:, None] & have[None, :], other=0.0)
        w = tl.load(values_ptr + b[:, None] * BLOCK * BLOCK + on[None, :] * BLOCK + inner[:, None], mask=have[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    n = brow * BLOCK + on
    tl.store(y_ptr + om[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=(om < M)[:, None])
