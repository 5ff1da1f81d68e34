"""W4A16 split among slices, words in tiles of their own."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 3}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SPLIT_K": 2}, num_warps=4),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    KW: tl.constexpr = BLOCK_K // 8
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_k = tl.program_id(1)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    rw = pid_k * KW + tl.arange(0, KW)

    x_ptrs = x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk
    w_ptrs = qweight_ptr + rn[:, None] * stride_wn + rw[None, :] * stride_wk
    places = 28 - tl.arange(0, 8)[None, None, :] * 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K * SPLIT_K):
        x = tl.load(x_ptrs, mask=(rm[:, None] < M) & (k + rk[None, :] < K), other=0.0)
        w = tl.load(w_ptrs, mask=(rn[:, None] < N) & (k // 8 + rw[None, :] < K // 8), other=0)
        q = (w[:, :, None] >> places) & 0xF
        q = (q ^ 8) - 8
        q = tl.reshape(q.to(tl.float16), (BLOCK_N, BLOCK_K))
        acc += tl.dot(x, tl.trans(q))
        x_ptrs += BLOCK_K * SPLIT_K * stride_xk
        w_ptrs += KW * stride_wk

    s = tl.load(scales_ptr + rn, mask=rn < N, other=0.0)
    y = (acc * s[None, :]).to(tl.float16)
    tl.atomic_add(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, y, mask=(rm[:, None] < M) & (rn[None, :] < N))
