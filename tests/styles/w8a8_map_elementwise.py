"""W8A8 by persistent programs over tiles and slices: tl.condition, tl.tuple, tl.map_elementwise, tiles dealt out to groups of programs."""
import math
import triton
import triton.language as tl

NUM_PROGRAMS = 2 ** round(math.log2(100))  # 128


def prune(configs, named_args, **kwargs):
    keep = [c for c in configs if c.kwargs["BLOCK_K"] <= max(64, named_args["K"])]
    return keep or configs


@triton.jit
def one(x):
    r = tl.floor(x)
    d = x - r
    r = tl.where((d > 0.5) | ((d == 0.5) & (tl.floor(r * 0.5) * 2 != r)), r + 1, r)
    return tl.minimum(127.0, tl.maximum(-128.0, r)).to(tl.int8)


@triton.jit
def remap(pid, n, XCD: tl.constexpr):
    whole = n // XCD * XCD
    if pid < whole:
        return (pid % XCD) * (n // XCD) + pid // XCD
    else:
        return pid


@triton.jit
def corner(tile, nn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    return tl.tuple((tile // nn * BLOCK_M, tile % nn * BLOCK_N))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64, "SPLIT_K": 2, "PROGRAMS": NUM_PROGRAMS}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 1, "PROGRAMS": NUM_PROGRAMS // 2}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
    prune_configs_by={"early_config_prune": prune},
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, PROGRAMS: tl.constexpr,
):
    nn = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * nn
    work = tl.program_id(0)
    while tl.condition(work < tiles * SPLIT_K):
        tile = remap(work // SPLIT_K, tiles, 8)
        part = work % SPLIT_K
        top, left = corner(tile, nn, BLOCK_M, BLOCK_N)
        rm = top + tl.arange(0, BLOCK_M)
        rn = left + tl.arange(0, BLOCK_N)
        s = tl.load(input_scale_ptr + rm, mask=rm < M, other=1.0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
        for k in range(part * BLOCK_K, K, BLOCK_K * SPLIT_K):
            rk = k + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk, mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
            w = tl.load(qweight_ptr + rk[:, None] + rn[None, :] * stride_wn, mask=(rk < K)[:, None] & (rn < N)[None, :], other=0)
            q = tl.map_elementwise(one, x.to(tl.float32) / s[:, None])
            acc = tl.dot(q, w, acc, out_dtype=tl.int32)
        y = (acc.to(tl.float32) * s[:, None] * tl.load(weight_scale_ptr + rn, mask=rn < N, other=0.0)[None, :]).to(tl.float16)
        where = y_ptr + rm[:, None] * stride_ym + rn[None, :]
        inside = (rm < M)[:, None] & (rn < N)[None, :]
        if SPLIT_K == 1:
            tl.store(where, y, mask=inside)
        else:
            tl.atomic_add(where, y, mask=inside)
        work += PROGRAMS


def W8A8_MM_grid(M, N, K, meta):
    work = triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]) * meta["SPLIT_K"]
    return (min(work, meta["PROGRAMS"]),)
