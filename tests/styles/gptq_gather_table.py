import triton
import triton.language as tl


@triton.jit
def lookup(nibbles):
    # a table as in 4-bit float formats, here simply 0..15
    table = tl.arange(0, 16).to(tl.float32)
    return tl.gather(table, tl.ravel(nibbles), axis=0).reshape(nibbles.shape)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 64}, num_warps=1),
                          triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def GPTQ_MM(x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size, stride_xm, stride_xk, stride_wk, stride_wn,
            stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    offs_m = pid % num_pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid // num_pid_m * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for kk in range(0, tl.cdiv(K, BLOCK_K)):
        offs_k = kk * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
                    mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        inside = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        packed = tl.load(qweight_ptr + (offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=inside, other=0)
        g = (offs_k // group_size)[:, None]
        s = tl.load(scales_ptr + g * stride_sg + offs_n[None, :] * stride_sn, mask=inside, other=0.0).to(tl.float32)
        z = tl.load(zeros_ptr + g * stride_zg + (offs_n // 8)[None, :] * stride_zn, mask=inside, other=0)
        q = lookup((packed >> (offs_k % 8 * 4)[:, None]) & 0xF)
        w = (q - lookup((z >> (offs_n % 8 * 4)[None, :]) & 0xF) - 1) * s
        acc = tl.dot(x, w.to(tl.float16), acc)
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, acc.to(tl.float16),
             mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
