import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4, num_stages=2),
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
    rm = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    rj = tl.arange(0, BLOCK_K // 8)
    shifts = 4 * tl.arange(0, 8)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + rk
        j = step * (BLOCK_K // 8) + rj
        x = tl.load(x_ptr + rm[:, None] * stride_xm + k[None, :] * stride_xk, mask=(rm < M)[:, None] & (k < K)[None, :], other=0.0)
        words = tl.load(qweight_ptr + j[:, None] * stride_wk + rn[None, :] * stride_wn, mask=(j < K // 8)[:, None] & (rn < N)[None, :], other=0)
        # a word becomes eight rows
        nib = (words[None, :, :] >> shifts[:, None, None]) & 15
        nib = tl.reshape(nib, (BLOCK_K, BLOCK_N))
        q = (nib ^ 8) - 8
        acc += tl.dot(x, q.to(tl.float16))

    s = tl.load(scales_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
    y = (acc * s[None, :]).to(tl.float16)
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, y, mask=(rm < M)[:, None] & (rn < N)[None, :])


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_M"]))
