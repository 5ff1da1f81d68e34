import triton
import triton.language as tl


@triton.jit
def decode(q):
    # 0..7 stay, 8..15 become negative
    idx = tl.arange(0, 16)
    table = tl.where(idx < 8, idx, 16 - idx).to(tl.float16)
    return tl.gather(table, q, axis=0)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 64}, num_warps=1),
                          triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    pid_m = pid % num_pid_m
    pid_n = pid // num_pid_m
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for kk in range(0, tl.cdiv(K, BLOCK_K)):
        offs_k = kk * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
                    mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        packed = tl.load(qweight_ptr + (offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn,
                         mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0)
        q = (packed >> ((offs_k % 8) * 4)[:, None]) & 0xF
        w = decode(tl.ravel(q)).reshape(BLOCK_K, BLOCK_N)
        acc = tl.dot(x, w, acc)
    scales = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0)
    y = (acc * scales[None, :].to(tl.float32)).to(tl.float16)
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, y,
             mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
