"""A program walks along all columns of blocks and asks of each whether it is there."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 64}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    brow = tl.program_id(1)
    j = tl.arange(0, BLOCK)
    at = tl.load(crow_indices_ptr + brow)
    end = tl.load(crow_indices_ptr + brow + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for c in range(K // BLOCK):
        named = tl.load(col_indices_ptr + at, mask=at < end, other=-1)
        if named == c:
            x = tl.load(x_ptr + m[:, None] * stride_xm + (c * BLOCK + j)[None, :] * stride_xk, mask=(m < M)[:, None], other=0.0)
            v = tl.load(values_ptr + at * (BLOCK * BLOCK) + j[:, None] * BLOCK + j[None, :])
            acc += tl.dot(x, tl.trans(v))
            at += 1
    n = brow * BLOCK + j
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None])
