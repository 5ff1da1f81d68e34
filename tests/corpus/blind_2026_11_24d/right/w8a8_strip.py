"""W8A8: a program makes a strip of Y, one tile of rows by several tiles of columns, and opens x once for all of them."""
import triton
import triton.language as tl


def W8A8_MM_grid(M, N, K, meta):
    return (1, triton.cdiv(M, meta["ROWS"]), triton.cdiv(N, meta["WIDE"] * 3))


@triton.jit
def nearest(v):
    # 1.5 * 2^23 pushes the fraction out of the mantissa
    return (v + 12582912.0) - 12582912.0


@triton.autotune(
    configs=[
        triton.Config({"ROWS": 16, "WIDE": 32, "DEEP": 64}, num_warps=4),
        triton.Config({"ROWS": 32, "WIDE": 16, "DEEP": 32}, num_warps=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    ROWS: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr,
):
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j0 = tl.program_id(2) * (WIDE * 3) + tl.arange(0, WIDE)
    j1 = j0 + WIDE
    j2 = j1 + WIDE
    d = tl.arange(0, DEEP)
    s = tl.load(input_scale_ptr + i, mask=i < M, other=1.0)
    y0 = tl.zeros((ROWS, WIDE), dtype=tl.int32)
    y1 = tl.zeros((ROWS, WIDE), dtype=tl.int32)
    y2 = tl.zeros((ROWS, WIDE), dtype=tl.int32)
    # from the end of K to its beginning: the step that needs a mask comes first
    for back in range(tl.cdiv(K, DEEP)):
        k = (tl.cdiv(K, DEEP) - 1 - back) * DEEP + d
        x = tl.load(x_ptr + i[:, None] * stride_xm + k[None, :] * stride_xk, mask=(i < M)[:, None] & (k < K)[None, :], other=0.0)
        q = tl.clamp(nearest(x.to(tl.float32) / s[:, None]), -128.0, 127.0).to(tl.int8)
        w_rows = qweight_ptr + k[:, None] * stride_wk
        k_ok = (k < K)[:, None]
        y0 += tl.dot(q, tl.load(w_rows + j0[None, :] * stride_wn, mask=k_ok & (j0 < N)[None, :], other=0), out_dtype=tl.int32)
        y1 += tl.dot(q, tl.load(w_rows + j1[None, :] * stride_wn, mask=k_ok & (j1 < N)[None, :], other=0), out_dtype=tl.int32)
        y2 += tl.dot(q, tl.load(w_rows + j2[None, :] * stride_wn, mask=k_ok & (j2 < N)[None, :], other=0), out_dtype=tl.int32)
    at = y_ptr + i[:, None] * stride_ym
    keep = (i < M)[:, None]
    for part in tl.static_range(3):
        j = j0 + part * WIDE
        y = y0 if part == 0 else (y1 if part == 1 else y2)
        t = tl.load(weight_scale_ptr + j, mask=j < N, other=0.0)
        tl.store(at + j[None, :] * stride_yn, (y.to(tl.float32) * (s[:, None] * t[None, :])).to(tl.float16), mask=keep & (j < N)[None, :])
