"""W4A16: K in four slices inside one program, a batch of four small products added up at the end."""
import triton
import triton.language as tl

SLICES = tl.constexpr(4)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "DEPTH": 16}, num_warps=4),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "DEPTH": 32}, num_warps=4),
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    pid_m = tl.program_id(0) % tl.cdiv(M, BLOCK_M)
    pid_n = tl.program_id(0) // tl.cdiv(M, BLOCK_M)
    m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[None, :, None]
    n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, None, :]
    piece = tl.cdiv(K // 8, SLICES) * 8
    first = tl.arange(0, SLICES) * piece
    acc = tl.zeros((SLICES, BLOCK_M, BLOCK_N), dtype=tl.float32)
    for d in range(0, piece, DEPTH):
        within = d + tl.arange(0, DEPTH)
        kx = first[:, None, None] + within[None, None, :]
        kw = first[:, None, None] + within[None, :, None]
        x = tl.load(x_ptr + m * stride_xm + kx * stride_xk, mask=(m < M) & (kx < K) & (within[None, None, :] < piece), other=0.0)
        w = tl.load(qweight_ptr + (kw >> 3) * stride_wk + n * stride_wn, mask=(n < N) & (kw < K) & (within[None, :, None] < piece), other=0)
        q = (w << (28 - 4 * (kw & 7))) >> 28
        acc += tl.dot(x, q.to(tl.float16))
    y = tl.sum(acc, axis=0)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    s = tl.load(scales_ptr + cols, mask=cols < N, other=0.0)
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn, (y * s[None, :]).to(tl.float16), mask=(rows < M)[:, None] & (cols < N)[None, :])
