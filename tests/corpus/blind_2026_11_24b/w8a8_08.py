"""W8A8 in jit helpers: one finds the tile, one quantises, one loads."""
import triton
import triton.language as tl

# 1.5 * 2**23: adding and subtracting it rounds an fp32 number below 2**22 to the nearest even integer
ROUND_MAGIC = tl.constexpr(12582912.0)


def tile_configs(sizes=((16, 32), (32, 64)), ks=(32, 64)):
    return [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 2}, num_warps=4 if bm > 16 else 2, num_stages=3)
        for bm, bn in sizes
        for bk in ks
    ]


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Walks GROUP rows of tiles together, so that they share columns of W in L2."""
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    per_group = GROUP * tiles_n
    group = pid // per_group
    first = group * GROUP
    height = tl.minimum(tiles_m, GROUP)
    inside = pid % per_group
    return first + inside % height, inside // height


@triton.jit
def quantize(x, inv_scale):
    q = x.to(tl.float32) * inv_scale
    q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    q = (q + ROUND_MAGIC) - ROUND_MAGIC
    return q.to(tl.int8)


@triton.jit
def load_tile(ptr, rows, cols, stride_r, stride_c, n_rows, n_cols):
    ptrs = ptr + rows[:, None] * stride_r + cols[None, :] * stride_c
    return tl.load(ptrs, mask=(rows[:, None] < n_rows) & (cols[None, :] < n_cols), other=0)


def W8A8_MM_grid(M, N, K, meta):
    tiles_m = (M + meta["BM"] - 1) // meta["BM"]
    tiles_n = (N + meta["BN"] - 1) // meta["BN"]
    return (tiles_m * tiles_n,)


@triton.autotune(configs=tile_configs(), key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    pid_m, pid_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    sx = tl.load(input_scale_ptr + rm, mask=rm < M, other=1.0)
    inv_sx = 1.0 / sx

    acc = tl.zeros((BM, BN), tl.int32)
    for k in range(tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        x = load_tile(x_ptr, rm, rk, stride_xm, stride_xk, M, K)
        w = load_tile(qweight_ptr, rk, rn, stride_wk, stride_wn, K, N)
        acc += tl.dot(quantize(x, inv_sx[:, None]), w)

    sw = tl.load(weight_scale_ptr + rn, mask=rn < N, other=1.0)
    y = acc.to(tl.float32) * sx[:, None] * sw[None, :]
    keep = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, y.to(tl.float16), mask=keep)
