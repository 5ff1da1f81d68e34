"""W8A8, persistent: a few programs walk over the tiles of Y in groups of rows."""
import triton
import triton.language as tl


def W8A8_MM_grid(M, N, K, meta):
    tiles = triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"])
    return (min(tiles, meta["PROGRAMS"]),)


@triton.jit
def nth_tile(t, tiles_m, tiles_n, G: tl.constexpr):
    per_group = G * tiles_n
    g = t // per_group
    rows_here = tl.minimum(tiles_m - g * G, G)
    inside = t % per_group
    return g * G + inside % rows_here, inside // rows_here


@triton.jit
def as_int8(v):
    v = tl.where(v >= 0, tl.floor(v + 0.5), tl.ceil(v - 0.5))
    return tl.minimum(tl.maximum(v, -128.0), 127.0).to(tl.int8)


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 32, "BK": 64, "G": 2, "PROGRAMS": 3}, num_warps=2),
        triton.Config({"BM": 32, "BN": 64, "BK": 32, "G": 4, "PROGRAMS": 2}, num_warps=4),
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
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr, PROGRAMS: tl.constexpr,
):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    # one scale per token; loaded up here so that the loop has less to load
    first_tile, _ = nth_tile(tl.program_id(0), tiles_m, tiles_n, G)
    first_rows = first_tile * BM + tl.arange(0, BM)
    token_scale = tl.load(input_scale_ptr + first_rows, mask=first_rows < M, other=1.0)
    for t in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        tm, tn = nth_tile(t, tiles_m, tiles_n, G)
        rm = tm * BM + tl.arange(0, BM)
        rn = tn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.int32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(
                x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk,
                mask=(rm[:, None] < M) & (rk[None, :] < K),
                other=0.0,
            )
            w = tl.load(
                qweight_ptr + rk[:, None] * stride_wk + rn[None, :] * stride_wn,
                mask=(rk[:, None] < K) & (rn[None, :] < N),
                other=0,
            )
            acc += tl.dot(as_int8(x.to(tl.float32) / token_scale[:, None]), w, out_dtype=tl.int32)
        channel_scale = tl.load(weight_scale_ptr + rn, mask=rn < N, other=1.0)
        y = acc.to(tl.float32) * token_scale[:, None] * channel_scale[None, :]
        tl.store(
            y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn,
            y.to(tl.float16),
            mask=(rm[:, None] < M) & (rn[None, :] < N),
        )
