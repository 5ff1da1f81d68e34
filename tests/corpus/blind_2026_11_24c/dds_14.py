"""Y^T in the accumulator: the block is the left side as it is stored, [r, c]."""
import triton
import triton.language as tl


@triton.jit
def bounds(crow, r):
    return tl.load(crow + r), tl.load(crow + r + 1)


@triton.jit
def tile_xT(x_ptr, m, k, sm, sk, M):
    return tl.load(x_ptr + k[:, None] * sk + m[None, :] * sm, mask=(m < M)[None, :], other=0.0)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=2, num_stages=2),
        triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    r = tl.program_id(0)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.arange(0, BLOCK)
    half = tl.arange(0, BLOCK // 2)
    i0, i1 = bounds(crow_indices_ptr, r)
    accT = tl.zeros((BLOCK, BLOCK_M), dtype=tl.float32)
    for i in range(i0, i1):
        first_k = tl.load(col_indices_ptr + i) * BLOCK
        block = values_ptr + i * BLOCK * BLOCK
        # left half of the block, then the right half
        va = tl.load(block + j[:, None] * BLOCK + half[None, :])
        accT = tl.dot(va, tile_xT(x_ptr, m, first_k + half, stride_xm, stride_xk, M), accT)
        vb = tl.load(block + BLOCK // 2 + j[:, None] * BLOCK + half[None, :])
        accT = tl.dot(vb, tile_xT(x_ptr, m, first_k + half, stride_xm, stride_xk, M), accT)
    y = tl.trans(accT).to(tl.float16)
    n = r * BLOCK + j
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None])


def DDS_MM_grid(M, N, K, meta):
    return (K // 32, triton.cdiv(M, meta["BLOCK_M"]))
