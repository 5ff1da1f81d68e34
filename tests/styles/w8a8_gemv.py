"""W8A8 without tensor cores: a program makes a few columns of one row."""
import triton
import triton.language as tl


def W8A8_MM_grid(M, N, K, meta):
    return M, triton.cdiv(N, meta["COLS"])


@triton.autotune(
    configs=[triton.Config({"COLS": 16, "DEPTH": 128}, num_warps=4), triton.Config({"COLS": 64, "DEPTH": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    COLS: tl.constexpr, DEPTH: tl.constexpr,
):
    row = tl.program_id(0)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    depth = tl.arange(0, DEPTH)
    s = tl.load(input_scale_ptr + row)
    total = tl.zeros((DEPTH, COLS), tl.int32)
    for k in range(0, K, DEPTH):
        inside = k + depth < K
        x = tl.load(x_ptr + row * stride_xm + (k + depth) * stride_xk, mask=inside, other=0.0).to(tl.float32)
        q = tl.floor(x / s + 0.5)
        q = tl.clamp(q, -128.0, 127.0).to(tl.int32)
        w = tl.load(qweight_ptr + (k + depth)[:, None] * stride_wk + col[None, :] * stride_wn,
                    mask=inside[:, None] & (col < N)[None, :], other=0)
        total += q[:, None] * w.to(tl.int32)
    sw = tl.load(weight_scale_ptr + col, mask=col < N, other=0.0)
    y = tl.sum(total, axis=0).to(tl.float32) * s * sw
    tl.store(y_ptr + row * stride_ym + col * stride_yn, y.to(tl.float16), mask=col < N)
