"""W8A16 with the weight fetched by a tensor descriptor, and persistent programs."""
import triton
import triton.language as tl

PROGRAMS = 24


def W8A16_MM_grid(M, N, K, meta):
    tiles = triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])
    return (min(PROGRAMS, tiles),)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    weight = tl.make_tensor_descriptor(qweight_ptr, shape=[N, K], strides=[stride_wn, 1], block_shape=[BLOCK_N, BLOCK_K])
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        first_n = tile % tiles_n * BLOCK_N
        columns = first_n + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            depth = k + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + rows[:, None] * stride_xm + depth[None, :] * stride_xk,
                        mask=(rows[:, None] < M) & (depth[None, :] < K), other=0.0)
            w = weight.load([first_n, k])
            acc += tl.dot(x, w.to(tl.float16).T)
        s = tl.load(scales_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn, (acc * s[None, :]).to(tl.float16),
                 mask=(rows[:, None] < M) & (columns[None, :] < N))
