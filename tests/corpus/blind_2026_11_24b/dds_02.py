"""Sparse weight by dense activations: the column of a block decides which part of X is gathered."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return (N // 32, triton.cdiv(M, meta["TOKENS"]))


@triton.autotune(configs=[triton.Config({"TOKENS": t}, num_warps=4) for t in (16, 32)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, TOKENS: tl.constexpr,
):
    strip = tl.program_id(0)
    tok = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    e = tl.arange(0, BLOCK)
    live = (tok < M)[:, None]
    a = tl.load(crow_indices_ptr + strip)
    z = tl.load(crow_indices_ptr + strip + 1)
    res = tl.zeros((TOKENS, BLOCK), tl.float32)
    for blk in range(a, z):
        c = tl.load(col_indices_ptr + blk)
        filled = c > 0
        feats = c * BLOCK + e
        xs = tl.load(x_ptr + tok[:, None] * stride_xm + feats[None, :] * stride_xk, mask=live & filled, other=0.0)
        vs = tl.load(values_ptr + blk * BLOCK * BLOCK + e[None, :] * BLOCK + e[:, None])
        res = tl.dot(xs, vs, res)
    outc = strip * BLOCK + e
    tl.store(y_ptr + tok[:, None] * stride_ym + outc[None, :] * stride_yn, res.to(tl.float16), mask=live)
