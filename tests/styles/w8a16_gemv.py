"""W8A16 without tensor cores: products of a small tile, reduced with tl.sum. Meant for a few tokens."""
import triton
import triton.language as tl


def W8A16_MM_grid(M, N, K, meta):
    return M, triton.cdiv(N, meta["COLS"])


@triton.autotune(
    configs=[
        triton.Config({"COLS": 16, "DEPTH": 256}, num_warps=4),
        triton.Config({"COLS": 64, "DEPTH": 64}, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    COLS: tl.constexpr, DEPTH: tl.constexpr,
):
    row = tl.program_id(0)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((DEPTH, COLS), tl.float32)
    for k in tl.range(0, K, DEPTH, num_stages=3):
        inside = k + depth < K
        x = tl.load(x_ptr + row * stride_xm + (k + depth) * stride_xk, mask=inside, other=0.0)
        q = tl.load(qweight_ptr + (k + depth)[:, None] * stride_wk + col[None, :] * stride_wn,
                    mask=inside[:, None] & (col < N)[None, :], other=0)
        total += x.to(tl.float32)[:, None] * q.to(tl.float32)
    scale = tl.load(scales_ptr + col, mask=col < N, other=0.0).to(tl.float32)
    y = tl.sum(total, axis=0) * scale
    tl.store(y_ptr + row * stride_ym + col * stride_yn, y.to(tl.float16), mask=col < N)
