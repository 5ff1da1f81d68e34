"""A step never crosses a group: heuristics choose the depth of a step as a power of two that divides the group."""
import math
import triton
import triton.language as tl


def depth(args):
    g = args["group_size"]
    return max(16, min(args["BLOCK_K"], g & -g))


CONFIGS = [triton.Config({"BLOCK_M": 16 * i, "BLOCK_N": 64, "BLOCK_K": 2 ** int(math.log2(64 * i)), "SPLIT_K": 1}, num_warps=4) for i in (1, 2)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "group_size"])
@triton.heuristics({"DEPTH": depth, "CROSSES": lambda a: (a["group_size"] & -a["group_size"]) < 16})
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
    DEPTH: tl.constexpr, CROSSES: tl.constexpr,
):
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    m_c = tl.minimum(m, M - 1).to(tl.int64)
    n_c = tl.minimum(n, N - 1).to(tl.int64)
    z_shift = ((n_c % 8) * 4).to(tl.int32)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # a step holds DEPTH rows of K, or with CROSSES the 8 of a word row (and 8 empty ones, for the dot wants 16)
    STEP: tl.constexpr = 8 if CROSSES else DEPTH
    j = tl.arange(0, DEPTH)
    for g in range(0, K // group_size):
        s = tl.load(scales_ptr + g * stride_sg + n_c * stride_sn).to(tl.float32)
        z = ((tl.load(zeros_ptr + g * stride_zg + n_c // 8 * stride_zn) >> z_shift) & 0xF) + 1
        part = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k0 in range(g * group_size, g * group_size + group_size, STEP):
            k = (k0 + j).to(tl.int64)
            in_step = j < STEP
            x = tl.load(x_ptr + m_c[:, None] * stride_xm + k[None, :] * stride_xk, mask=in_step[None, :], other=0.0)
            q = tl.load(qweight_ptr + (k // 8)[:, None] * stride_wk + n_c[None, :] * stride_wn, mask=in_step[:, None], other=0)
            q = (q >> (j % 8 * 4)[:, None]) & 0xF
            part = tl.dot(x, (q - z[None, :]).to(tl.float16), part)
        acc = tl.fma(part, tl.broadcast_to(s[None, :], (BLOCK_M, BLOCK_N)), acc)
    tl.store(y_ptr + m[:, None].to(tl.int64) * stride_ym + n[None, :].to(tl.int64) * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
