"""DDS that gathers several blocks of a row into one longer dot, to give the tensor cores a deeper K."""
import triton
import triton.language as tl

GATHER = [2, 4]


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCKS_PER_STEP": g}, num_warps=4, num_stages=2) for g in GATHER]
    + [triton.Config({"BLOCK_M": 64, "BLOCKS_PER_STEP": 1}, num_warps=4, num_stages=3)],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCKS_PER_STEP: tl.constexpr,
):
    row = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)
    deep = tl.arange(0, BLOCKS_PER_STEP * BLOCK)
    which = deep // BLOCK  # which of the gathered blocks
    inside = deep % BLOCK  # which k of that block

    begin = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(begin, end, BLOCKS_PER_STEP):
        block = i + which
        live = block < end
        k = tl.load(col_indices_ptr + block, mask=live, other=0) * BLOCK + inside
        x = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + k[None, :] * stride_xk,
            mask=(offs_m < M)[:, None] & live[None, :], other=0.0,
        )
        w = tl.load(
            values_ptr + (block * BLOCK * BLOCK + inside)[:, None] + (offs_b * BLOCK)[None, :],
            mask=live[:, None], other=0.0,
        )
        acc = tl.dot(x, w, acc)

    offs_n = row * BLOCK + offs_b
    tl.store(
        y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn,
        acc.to(tl.float16), mask=(offs_m < M)[:, None],
    )
