from __future__ import annotations

import triton
import triton.language as tl

KINDS = ["plain", "split"]


def build(split):
    tile = 16
    while tile < 20:
        yield triton.Config({"BM": tile, "BN": tile, "BK": 32, "SPLIT_K": split}, num_warps=4)
        tile *= 2


@triton.jit
def offsets(pid, size: tl.constexpr):
    return pid * size + tl.arange(0, size)


@triton.jit
def tile_pointers(base, rows, cols, stride_r, stride_c):
    return base + rows[:, None] * stride_r + cols[None, :] * stride_c


@triton.jit
def inside(rows, cols, R, C):
    return (rows[:, None] < R) & (cols[None, :] < C)


@triton.autotune(configs=list(build(1)) + list(build(5)), key=["M", "N", "K"], reset_to_zero=["y_ptr"], warmup=5, rep=10)
@triton.jit
def W8A8_MM(x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
            stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT_K: tl.constexpr):
    tl.static_assert(BK >= 32, "int8 needs 32")
    tl.assume(stride_xm >= 0)
    tl.assume(K % 16 == 0)
    tn = tl.cdiv(N, BN)
    rows, cols = offsets(tl.program_id(0) // tn, BM), offsets(tl.program_id(0) % tn, BN)
    # contiguous slices of K, whole tiles
    per: tl.tensor = tl.cdiv(tl.cdiv(K, BK), SPLIT_K) * BK
    lo = tl.program_id(1) * per
    hi = K
    scale = tl.load(input_scale_ptr + rows, rows < M, 1.0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(lo, hi, BK):
        depth = k + tl.arange(0, BK)
        x = tl.load(tile_pointers(x_ptr, rows, depth, stride_xm, stride_xk), inside(rows, depth, M, hi), 0.0)
        w = tl.load(tile_pointers(qweight_ptr, depth, cols, stride_wk, stride_wn), inside(depth, cols, hi, N), 0)
        q = tl.floor(x / scale[:, None] + 0.5)
        q = tl.clamp(q, 0.0, 127.0)
        # int8 values are exact in bf16; the products are summed in fp32
        acc = tl.dot(q.to(tl.bfloat16), w.to(tl.bfloat16), acc)
    acc *= scale[:, None]
    wscale = tl.load(weight_scale_ptr + cols, cols < N, 0.0)
    acc *= scale[None, :]
    out = tile_pointers(y_ptr, rows, cols, stride_ym, stride_yn)
    if SPLIT_K != 1:
        tl.atomic_add(out, acc.to(tl.float16), inside(rows, cols, M, N))
    else:
        tl.store(out, acc.to(tl.float16), inside(rows, cols, M, N))


def W8A8_MM_grid(M: int, N: int, K: int, meta: dict[str, int]):
    tiles = triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"])
    return [tiles, meta["SPLIT_K"]]
