"""DDS with a persistent loop: a fixed number of programs share out the (token tile, block row) pairs."""
import triton
import triton.language as tl


def sm_count():
    return 132


def DDS_MM_grid(M, N, K, meta):
    tiles = triton.cdiv(M, meta["BLOCK_M"]) * (N // 32)
    return (min(tiles, sm_count() * meta["WAVES"]),)


@triton.jit
def block_row_product(
    x_ptr, values_ptr, col_indices_ptr, offs_m, M, stride_xm, stride_xk, start, end,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    offs_b = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for i in range(start, end):
        col = tl.load(col_indices_ptr + i)
        x = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + (col * BLOCK + offs_b)[None, :] * stride_xk,
            mask=offs_m[:, None] < M, other=0.0,
        )
        w = tl.load(values_ptr + i * BLOCK * BLOCK + offs_b[:, None] * BLOCK + offs_b[None, :])
        acc += tl.dot(x, w)
    return acc


@triton.autotune(configs=[triton.Config({"BLOCK_M": b, "WAVES": 1}, num_warps=4) for b in (16, 64)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr, WAVES: tl.constexpr,
):
    num_m = tl.cdiv(M, BLOCK_M)
    num_tiles = num_m * (N // BLOCK)
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        row = tile // num_m
        offs_m = (tile % (N // BLOCK)) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = row * BLOCK + tl.arange(0, BLOCK)
        start = tl.load(crow_indices_ptr + row)
        end = tl.load(crow_indices_ptr + row + 1)
        acc = block_row_product(
            x_ptr, values_ptr, col_indices_ptr, offs_m, M, stride_xm, stride_xk, start, end, BLOCK, BLOCK_M
        )
        tl.store(
            y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn,
            acc.to(tl.float16), mask=offs_m[:, None] < M,
        )
