"""Bonus lab, GPTQ: int4 weights with a scale and a zero point for each group of group_size weights along K."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=2, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
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
    num_pid_n = tl.cdiv(N, BLOCK_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        offs_k = k * BLOCK_K + tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
        x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)

        # every word is loaded once for each of its eight nibbles
        inside = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        w_ptrs = qweight_ptr + (offs_k[:, None] // 8) * stride_wk + offs_n[None, :] * stride_wn
        word = tl.load(w_ptrs, mask=inside, other=0)
        shift = 4 * (offs_k[:, None] % 8)
        q = (word >> shift) & 0xF

        # a scale and a zero point for every element
        g = offs_k[:, None] // group_size
        s_ptrs = scales_ptr + g * stride_sg + offs_n[None, :] * stride_sn
        scale = tl.load(s_ptrs, mask=inside, other=0.0)
        z_ptrs = zeros_ptr + g * stride_zg + (offs_n[None, :] // 8) * stride_zn
        zero_word = tl.load(z_ptrs, mask=inside, other=0)
        zero_shift = 4 * (offs_n[None, :] % 8)
        zero = ((zero_word >> zero_shift) & 0xF) + 1

        w = (q - zero).to(tl.float16) * scale
        acc += tl.dot(x, w)

    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
