import triton
import triton.language as tl


def W4A16_MM_grid(M, N, K, meta):
    return (min(4, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])),)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    work = tl.program_id(0)
    cols_of_tiles = tl.cdiv(N, BLOCK_N)
    all_work = tl.cdiv(M, BLOCK_M) * cols_of_tiles
    kidx = tl.arange(0, BLOCK_K)
    bit = (kidx & 7) * 4
    while work < all_work:
        m = work // cols_of_tiles * BLOCK_M + tl.arange(0, BLOCK_M)
        n = work % cols_of_tiles * BLOCK_N + tl.arange(0, BLOCK_N)
        mrow = tl.minimum(m, M - 1)
        ncol = tl.minimum(n, N - 1)
        xp = x_ptr + mrow[:, None] * stride_xm + kidx[None, :] * stride_xk
        wp = qweight_ptr + (kidx >> 3)[:, None] * stride_wk + ncol[None, :] * stride_wn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            ok = kidx + k0 < K
            x = tl.load(xp, mask=ok[None, :], other=0.0)
            w = tl.load(wp, mask=ok[:, None], other=0)
            u = (w >> bit[:, None]) & 0xF
            q = ((u + 7) & 0xF) - 7
            acc += tl.dot(x, q.to(tl.float16))
            xp += BLOCK_K * stride_xk
            wp += (BLOCK_K >> 3) * stride_wk
        s = tl.load(scales_ptr + ncol)
        y = (acc * s.to(tl.float32)[None, :]).to(tl.float16)
        tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None] & (n < N)[None, :])
        work += tl.num_programs(0)
