import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(K // group_size):
        products = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        sums = tl.zeros((BLOCK_M,), dtype=tl.float32)
        end = (group + 1) * group_size
        for first in range(group * group_size, end, BLOCK_K):
            rk = first + tl.arange(0, BLOCK_K)
            x = tl.load(
                x_ptr + rm[:, None] * stride_xm + rk[None, :] * stride_xk,
                mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0,
            )
            words = tl.load(
                qweight_ptr + (rk // 8)[:, None] * stride_wk + rn[None, :] * stride_wn,
                mask=(rk < end)[:, None] & (rn < N)[None, :], other=0,
            )
            q = (words >> (rk % 8 * 4)[:, None]) & 7
            products = tl.dot(x, q.to(tl.float16), products)
            sums += tl.sum(x.to(tl.float32), axis=1)
        zero = tl.load(zeros_ptr + group * stride_zg + (rn // 8) * stride_zn, mask=rn < N, other=0)
        zero = (zero >> (rn % 8 * 4)) & 15
        scale = tl.load(scales_ptr + group * stride_sg + rn * stride_sn, mask=rn < N, other=0.0)
        acc += products * scale[None, :].to(tl.float32) - sums[:, None] * (zero + 1)[None, :].to(tl.float32)
    tl.store(
        y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, acc.to(tl.float16),
        mask=(rm < M)[:, None] & (rn < N)[None, :],
    )


def GPTQ_MM_grid(M, N, K, meta):
    return triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"])
