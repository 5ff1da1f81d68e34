"""W8A16 with block pointers and a two-dimensional grid."""
import triton
import triton.language as tl


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_M"]))


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4),
             triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    column, row = tl.program_id(0) * BLOCK_N, tl.program_id(1) * BLOCK_M
    x_block = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (row, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_block = tl.make_block_ptr(qweight_ptr, (K, N), (stride_wk, stride_wn), (0, column), (BLOCK_K, BLOCK_N), (0, 1))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (row, column), (BLOCK_M, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_block, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, w.to(tl.float16))
        x_block = tl.advance(x_block, (0, BLOCK_K))
        w_block = tl.advance(w_block, (BLOCK_K, 0))
    n = column + tl.arange(0, BLOCK_N)
    scale = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    tl.store(y_block, (acc * scale.to(tl.float32)).to(tl.float16), boundary_check=(0, 1))
