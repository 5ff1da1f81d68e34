import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 2}, num_warps=4),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 4}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
    reset_to_zero=["y_ptr"],
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    t = tl.program_id(0)
    slot = tl.program_id(1)
    grid_m = tl.cdiv(M, BLOCK_M)
    offs_m = t % grid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = t // grid_m * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = slot * BLOCK_K + tl.arange(0, BLOCK_K)
    in_m = (offs_m < M)[:, None]
    in_n = (offs_n < N)[None, :]
    z_shift = (offs_n % 8 * 4)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        in_k = offs_k < K
        ok = in_k[:, None] & in_n
        a = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk, mask=in_m & in_k[None, :], other=0.0)
        b = tl.load(qweight_ptr + (offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=ok, other=0)
        b = (b >> (offs_k % 8 * 4)[:, None]) & 0xF
        g = (offs_k // group_size)[:, None]
        zero = tl.load(zeros_ptr + g * stride_sg + (offs_n // 8)[None, :] * stride_zn, mask=ok, other=0)
        zero = (zero >> z_shift) & 0xF
        scale = tl.load(scales_ptr + g * stride_sg + offs_n[None, :] * stride_sn, mask=ok, other=0.0)
        b = (b - zero + 1).to(tl.float16) * scale
        acc += tl.dot(a, b)
        offs_k += BLOCK_K * SPLIT_K
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.atomic_add(y_ptrs, acc.to(tl.float16), mask=in_m & in_n)
