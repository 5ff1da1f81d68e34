"""Stream-K: a fixed number of programs share out all steps of all tiles evenly; each may begin and end in the middle of a tile."""
import triton
import triton.language as tl


@triton.jit
def _segment(x_ptr, w_ptr, sx, rm, rn, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, first, last,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for s in range(first, last):
        rk = s * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + rk[:, None] * stride_wk + rn[None, :] * stride_wn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0)
        v = x.to(tl.float32) / sx[:, None]
        v = tl.where(v >= 0, tl.floor(v + 0.5), tl.ceil(v - 0.5))
        acc += tl.dot(tl.clamp(v, -128.0, 127.0).to(tl.int8), w)
    return acc


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 2, "PROGRAMS": 24}, num_warps=4)],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, PROGRAMS: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    per_tile = tl.cdiv(K, BLOCK_K)
    total = tl.cdiv(M, BLOCK_M) * tiles_n * per_tile
    share = tl.cdiv(total, tl.num_programs(0))
    at = pid * share
    end = tl.minimum(at + share, total)
    while at < end:
        tile = at // per_tile
        first = at - tile * per_tile
        last = tl.minimum(per_tile, first + end - at)
        rm = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        sx = tl.load(input_scale_ptr + rm, mask=rm < M, other=1.0)
        sw = tl.load(weight_scale_ptr + rn, mask=rn < N, other=0.0)
        acc = _segment(x_ptr, qweight_ptr, sx, rm, rn, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, first, last,
                       BLOCK_M, BLOCK_N, BLOCK_K)
        out = (acc.to(tl.float32) * sx[:, None] * sw[None, :]).to(tl.float16)
        p = y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn
        inside = (rm[:, None] < M) & (rn[None, :] < N)
        if last - first == per_tile:  # nobody else adds to this tile
            tl.store(p, out, mask=inside)
        else:
            tl.atomic_add(p, out, mask=inside)
        at += last - first


def W8A8_MM_grid(M, N, K, meta):
    return (meta["PROGRAMS"],)
