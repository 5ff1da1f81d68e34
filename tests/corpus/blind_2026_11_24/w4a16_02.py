import triton
import triton.language as tl


def get_configs():
    return [triton.Config({"BLOCK_M": bm, "BLOCK_N": 32, "BLOCK_K": bk}, num_warps=4, num_stages=2) for bm in (16, 32) for bk in (32, 64)]


@triton.autotune(configs=get_configs(), key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n

    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    a_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    b_ptrs = qweight_ptr + (offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn
    shifts = (7 - offs_k % 8) * 4

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0)
        b = (b >> shifts[:, None]) & 0xF
        b = tl.where(b > 7, b - 16, b)
        acc = tl.dot(a, b.to(tl.float16), acc)
        a_ptrs += BLOCK_K * stride_xk
        b_ptrs += BLOCK_K // 8 * stride_wk

    s = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    y = (acc * s[None, :]).to(tl.float16)
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, y, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
