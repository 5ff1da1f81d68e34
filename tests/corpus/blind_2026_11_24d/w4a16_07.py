"""W4A16 with a block pointer for X, and plain pointers for the words."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0) % tl.cdiv(M, BLOCK_M)
    pid_n = tl.program_id(0) // tl.cdiv(M, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    in_n = n[None, :] < N
    k = tl.arange(0, BLOCK_K)
    x_block = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_ptrs = qweight_ptr + (k // 8)[:, None] * stride_wk + n[None, :] * stride_wn
    shift = ((k % 8) * 4)[:, None]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for done in range(0, K, BLOCK_K):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        word = tl.load(w_ptrs, mask=(k[:, None] < K - done) & in_n, other=0)
        q = (word >> shift) & 0xF
        acc = tl.dot(x, q.to(tl.float16), acc)
        x_block = tl.advance(x_block, (0, BLOCK_K))
        w_ptrs += (BLOCK_K // 8) * stride_wk

    scale = tl.load(scales_ptr + n // 8, mask=n < N, other=1.0)
    y = acc * scale.to(tl.float32)[None, :]
    y_block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (pid_m * BLOCK_M, pid_n * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(y_block, y.to(tl.float16), boundary_check=(0, 1))
