"""Zero points leave the product: acc - rowsum(x) * zero, group by group."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    nt = tl.cdiv(N, BLOCK_N)
    m = pid // nt * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid % nt * BLOCK_N + tl.arange(0, BLOCK_N)
    mi = tl.minimum(m, M - 1)
    ni = tl.minimum(n, N - 1)
    y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    lo = 0
    while lo < K:
        g = lo // group_size
        hi = lo + group_size
        part = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        rowsum = tl.zeros((BLOCK_M,), tl.float32)
        for k0 in range(lo, hi, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + mi[:, None] * stride_xm + k[None, :] * stride_xk, mask=(k < K)[None, :], other=0.0)
            word = tl.load(qweight_ptr + (k // 8)[:, None] * stride_wk + ni[None, :] * stride_wn, mask=(k < K)[:, None], other=0)
            q = (word >> (k % 8 * 4)[:, None]) & 0xF
            part += tl.dot(x, q.to(tl.float16))
            rowsum += tl.sum(x.to(tl.float32), 1)
        z = tl.load(zeros_ptr + g * stride_zg + ni // 8 * stride_zn)
        z = ((z >> (ni % 8 * 4)) & 0xF) + 1
        s = tl.load(scales_ptr + g * stride_sg + ni * stride_sn).to(tl.float32)
        y += (part - rowsum[:, None] * z.to(tl.float32)[None, :]) * s[None, :]
        lo = hi
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
