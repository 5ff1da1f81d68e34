"""DDS, persistent: every program has a run of consecutive tiles, block rows fastest."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return (min(meta["CREW"], triton.cdiv(M, meta["BLOCK_M"]) * (N // 32)),)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "CREW": 2}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "CREW": 3}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr, CREW: tl.constexpr,
):
    block_rows = N // BLOCK
    tiles = tl.cdiv(M, BLOCK_M) * block_rows
    share = tl.cdiv(tiles, tl.num_programs(0))
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, tiles)
    i = tl.arange(0, BLOCK)
    w_ptrs = values_ptr + tl.load(crow_indices_ptr + begin % block_rows) * BLOCK * BLOCK + i[:, None] + i[None, :] * BLOCK
    for tile in range(begin, end):
        block_row = tile % block_rows
        m = tile // block_rows * BLOCK_M + tl.arange(0, BLOCK_M)
        start = tl.load(crow_indices_ptr + block_row)
        stop = tl.load(crow_indices_ptr + block_row + 1)
        acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
        for b in range(start, stop):
            k = tl.load(col_indices_ptr + b) * BLOCK + i
            x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=m[:, None] < M, other=0.0)
            acc = tl.dot(x, tl.load(w_ptrs), acc)
            w_ptrs += BLOCK * BLOCK
        n = block_row * BLOCK + i
        tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=m[:, None] < M)
