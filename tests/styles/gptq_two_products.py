"""Bonus lab, GPTQ: x times the scaled weights less x times the scaled zero points, both in fp16."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr,
    M, N, K, group_size,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_sg, stride_sn,
    stride_zg, stride_zn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BLOCK_N)
    rm = pid // num_n * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid % num_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        kk = k + rk
        x_ptrs = x_ptr + rm[:, None] * stride_xm + kk[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=(rm[:, None] < M) & (kk[None, :] < K), other=0.0)
        inside = (kk[:, None] < K) & (rn[None, :] < N)
        word = tl.load(qweight_ptr + (kk // 8)[:, None] * stride_wk + rn[None, :] * stride_wn, mask=inside, other=0)
        q = (word >> (kk % 8 * 4)[:, None]) & 15
        g = kk // group_size
        s = tl.load(scales_ptr + g[:, None] * stride_sg + rn[None, :] * stride_sn, mask=inside, other=0.0)
        zw = tl.load(zeros_ptr + g[:, None] * stride_zg + (rn // 8)[None, :] * stride_zn, mask=inside, other=0)
        z = ((zw >> (rn % 8 * 4)[None, :]) & 15) + 1
        w = q.to(tl.float16) * s
        b = z.to(tl.float16) * s
        acc += tl.dot(x, w) - tl.dot(x, b)
    y_ptrs = y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))
