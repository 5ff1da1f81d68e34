"""W8A8, persistent: a handful of programs walk over the tiles."""
import triton
import triton.language as tl
from triton import Config, autotune, cdiv, jit

PROGRAMS = 6


def W8A8_MM_grid(M: int, N: int, K: int, meta: dict) -> tuple:
    tiles = cdiv(M, meta["TILE_M"]) * cdiv(N, meta["TILE_N"])
    return (min(tiles, PROGRAMS), 1, 1)


@autotune(
    [
        Config({"TILE_M": 16, "TILE_N": 32, "TILE_K": 32}, num_warps=4),
        Config({"TILE_M": 32, "TILE_N": 16, "TILE_K": 64}, num_warps=4),
    ],
    key=["N", "K"],
)
@jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):
    tiles_n = tl.cdiv(N, TILE_N)
    tiles = tl.cdiv(M, TILE_M) * tiles_n
    tile = tl.program_id(0)
    step = tl.num_programs(0)
    acc = tl.full((TILE_M, TILE_N), 0, tl.int32)

    while tile < tiles:
        m = (tile // tiles_n) * TILE_M + tl.arange(0, TILE_M)
        n = (tile % tiles_n) * TILE_N + tl.arange(0, TILE_N)
        in_m = m < M
        in_n = n < N
        s_m = tl.load(input_scale_ptr + m, in_m, 1.0)
        s_n = tl.load(weight_scale_ptr + n, in_n, 1.0)
        k0 = 0
        while k0 < K:
            k = k0 + tl.arange(0, TILE_K)
            in_k = k < K
            x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
                        in_m[:, None] & in_k[None, :], 0.0)
            w = tl.load(qweight_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn,
                        in_k[:, None] & in_n[None, :], 0)
            r = x.to(tl.float32) / s_m[:, None]
            # clamp first, then round half away from zero: the cast truncates
            r = tl.where(r > 127, 127.0, tl.where(r < -128, -128.0, r))
            half = tl.where(r >= 0, 0.5, -0.5)
            q = (r + half).to(tl.int32).to(tl.int8)
            acc += tl.dot(q, w)
            k0 += TILE_K
        y = acc.to(tl.float32) * s_m[:, None] * s_n[None, :]
        tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16),
                 in_m[:, None] & in_n[None, :])
        tile += step
