"""The columns rise within a block row, so the walk knows by itself where it is."""
import triton
import triton.language as tl

TRIES = [triton.Config({"HEIGHT": 16}, num_warps=2), triton.Config({"HEIGHT": 64}, num_warps=4)]


@triton.autotune(configs=TRIES, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, HEIGHT: tl.constexpr,
):
    strips = N // BLOCK
    g = tl.program_id(0)
    strip = g % strips
    ys = g // strips * HEIGHT + tl.arange(0, HEIGHT)
    inner = tl.arange(0, BLOCK)
    here = tl.load(crow_indices_ptr + strip)
    limit = tl.load(crow_indices_ptr + strips)
    before = -1
    now = tl.load(col_indices_ptr + here, mask=here < limit, other=-1)
    tile = tl.zeros((HEIGHT, BLOCK), dtype=tl.float32)
    while now > before:
        xin = tl.load(x_ptr + ys[:, None] * stride_xm + (now * BLOCK + inner)[None, :] * stride_xk, mask=(ys < M)[:, None], other=0.0)
        win = tl.load(values_ptr + here * (BLOCK * BLOCK) + inner[:, None] * BLOCK + inner[None, :])
        tile += tl.dot(xin, win.T)
        here += 1
        before = now
        now = tl.load(col_indices_ptr + here, mask=here < limit, other=-1)
    xs = strip * BLOCK + inner
    tl.store(y_ptr + ys[:, None] * stride_ym + xs[None, :] * stride_yn, tile.to(tl.float16), mask=(ys < M)[:, None])


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["HEIGHT"]) * (N // 32),)
