"""Two neighbouring block rows a program, walked together; the shorter one is masked out."""
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": m}, num_warps=4, num_stages=s) for m in (16, 64) for s in (2, 3)]


@triton.jit
def one(x_row_ptr, values_ptr, cols_ptr, b, end, k_stride, c, BLOCK: tl.constexpr):
    alive = b < end
    col = tl.load(cols_ptr + b, mask=alive, other=0).to(tl.int64)
    x = tl.load(x_row_ptr + (col * BLOCK + c)[None, :] * k_stride, mask=alive, other=0.0)
    v = tl.load(values_ptr + b.to(tl.int64) * BLOCK * BLOCK + c[None, :] * BLOCK + c[:, None], mask=alive, other=0.0)
    return x, v


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    rows = N // BLOCK
    r = tl.program_id(1) * 2
    second = r + 1 < rows
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK)
    xr = x_ptr + tl.minimum(m, M - 1).to(tl.int64)[:, None] * stride_xm
    b0 = tl.load(crow_indices_ptr + r)
    e0 = tl.load(crow_indices_ptr + r + 1)
    b1 = e0
    e1 = tl.load(crow_indices_ptr + r + 2, mask=second, other=0)
    e1 = max(e1, b1)
    top = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    low = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    for t in range(e0 - b0):
        x0, v0 = one(xr, values_ptr, col_indices_ptr, b0 + t, e0, stride_xk, c, BLOCK)
        x1, v1 = one(xr, values_ptr, col_indices_ptr, b1 + t, e1, stride_xk, c, BLOCK)
        top = tl.dot(x0, v0, top)
        low = tl.dot(x1, v1, low)
    yp = y_ptr + m[:, None].to(tl.int64) * stride_ym + (r * BLOCK + c)[None, :].to(tl.int64) * stride_yn
    ok = (m < M)[:, None]
    tl.store(yp, top.to(tl.float16), mask=ok)
    tl.store(yp + BLOCK * stride_yn, low.to(tl.float16), mask=ok & second)


def DDS_MM_grid(M, N, K, meta):
    return triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N // 32, 2)
