import triton
import triton.language as tl

TILES = (16, 32)


def DDS_MM_grid(M, N, K, meta):
    return (N // 32 * triton.cdiv(M, meta["TM"]),)


@triton.autotune([triton.Config({"TM": t, "PAIR": 2}, num_warps=4) for t in TILES], key=["M", "N", "K"])
@triton.jit
def DDS_MM(x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
           stride_xm, stride_xk, stride_ym, stride_yn,
           BLOCK: tl.constexpr, TM: tl.constexpr, PAIR: tl.constexpr):
    """Two sums, one for even and one for odd blocks, added at the end."""
    nrows = N // BLOCK
    r = tl.program_id(0) % nrows
    m = tl.program_id(0) // nrows * TM + tl.arange(0, TM)
    e = tl.arange(0, BLOCK)
    ok = (m < M)[:, None]
    lo = tl.load(crow_indices_ptr + r)
    hi = tl.load(crow_indices_ptr + r + 1)
    even = tl.zeros((TM, BLOCK), tl.float32)
    odd = tl.zeros((TM, BLOCK), tl.float32)
    for b in range(lo, hi, PAIR):
        k = tl.load(col_indices_ptr + b) * BLOCK + e
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=ok, other=0.0)
        v = tl.load(values_ptr + b * BLOCK * BLOCK + e[:, None] * BLOCK + e[None, :])
        even = tl.dot(x, tl.trans(v), even)
        two = b + 1 < hi
        k2 = tl.load(col_indices_ptr + b + 1, mask=two, other=0) * BLOCK + e
        x2 = tl.load(x_ptr + m[:, None] * stride_xm + k2[None, :] * stride_xk, mask=ok & two, other=0.0)
        v2 = tl.load(values_ptr + (b + 1) * BLOCK * BLOCK + e[:, None] * BLOCK + e[None, :], mask=two, other=0.0)
        odd = tl.dot(x, tl.trans(v2), odd)
    y = even - odd
    n = r * BLOCK + e
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=ok)
