"""The loop of GPTQ-for-LLaMa; the autotuner in a variable, names in other alphabets."""
import triton
import triton.language as tl

# 每个字八个四位数
每字: tl.constexpr = tl.constexpr(8)


@triton.jit
def 符号(b):
    return tl.where(b > 7, b - 16, b)


调优 = triton.autotune(configs=[
        triton.Config({'BLOCK_SIZE_M': 16, 'BLOCK_SIZE_N': 64, 'BLOCK_SIZE_K': 32, '组大小': 8}, num_stages=4, num_warps=4),
        triton.Config({'BLOCK_SIZE_M': 64, 'BLOCK_SIZE_N': 32, 'BLOCK_SIZE_K': 64, '组大小': 4}, num_stages=2, num_warps=8),
    ], key=['M', 'N', 'K'])

@调优
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
             stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, 组大小: tl.constexpr):
    bits: tl.constexpr = 4
    infeatures_per_bits = 每字
    maxq: tl.constexpr = 2**bits - 1
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_k = tl.cdiv(K, BLOCK_SIZE_K)
    num_pid_in_group = 组大小 * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * 组大小
    group_size_m = min(num_pid_m - first_pid_m, 组大小)
    pid_m = first_pid_m + (pid % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = x_ptr + (offs_am[:, None] * stride_xm + offs_k[None, :] * stride_xk)
    b_ptrs = qweight_ptr + ((offs_k[:, None] // infeatures_per_bits) * stride_wk + offs_bn[None, :] * stride_wn)
    shifter = (offs_k % infeatures_per_bits) * bits
    scales = tl.load(scales_ptr + offs_bn, mask=offs_bn < N, other=0.0)[None, :]
    σ = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, num_pid_k):
        k_left = K - k * BLOCK_SIZE_K
        a = tl.load(a_ptrs, mask=(offs_am[:, None] < M) & (offs_k[None, :] < k_left), other=0.)
        b = tl.load(b_ptrs, mask=(offs_bn[None, :] < N) & (offs_k[:, None] < k_left), other=0)
        b = (b >> shifter[:, None]) & maxq
        b = 符号(b)
        b = (b * scales).to(tl.float16)
        σ += tl.dot(a, b)
        a_ptrs += BLOCK_SIZE_K * stride_xk
        b_ptrs += (BLOCK_SIZE_K // infeatures_per_bits) * stride_wk
    c_ptrs = y_ptr + stride_ym * offs_am[:, None] + stride_yn * offs_bn[None, :]
    c_mask = (offs_am[:, None] < M) & (offs_bn[None, :] < N)
    tl.store(c_ptrs, σ, mask=c_mask)

def W4A16_MM_grid(M, N, K, META):
    return (triton.cdiv(M, META['BLOCK_SIZE_M']) * triton.cdiv(N, META['BLOCK_SIZE_N']),)
