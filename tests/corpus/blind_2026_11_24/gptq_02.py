import triton
import triton.language as tl

@triton.jit()
def swizzle_tile(pid, m, n, block_m: tl.constexpr, block_n: tl.constexpr, group_m: tl.constexpr):
    grid_m, grid_n = tl.cdiv(m, block_m), tl.cdiv(n, block_n)
    width = group_m * grid_n
    group_id = pid // width
    size = tl.minimum(grid_m - group_id * group_m, group_m)
    return group_id * group_m + pid % size, pid % width // size


@triton.autotune(
    configs=[
        triton.Config({"block_m": 16, "block_n": 32, "block_k": 128, "SPLIT_K": 4, "group_m": 8}, num_warps=4, num_stages=2),
        triton.Config({"block_m": 32, "block_n": 32, "block_k": 32, "SPLIT_K": 1, "group_m": 4}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit()
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, SPLIT_K: tl.constexpr, group_m: tl.constexpr,
):
    pid_m, pid_n = swizzle_tile(tl.program_id(0), M, N, block_m, block_n, group_m)
    pid_k = tl.program_id(1)
    offs_m = pid_m * block_m + tl.arange(0, block_m)
    offs_n = pid_n * block_n + tl.arange(0, block_n)
    offs_k = pid_k * block_k + tl.arange(0, block_k)
    zeros_shifter = (offs_n % 8) * 4
    shifter = (offs_k % 8) * 4
    acc = tl.zeros((block_m, block_n), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, block_k * SPLIT_K)):
        here = offs_k + k * block_k * SPLIT_K
        in_w = (here < K)[:, None] & (offs_n < N)[None, :]
        a = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + here[None, :] * stride_xk,
            mask=(offs_m < M)[:, None] & (here < K)[None, :], other=0.0,
        )
        b = tl.load(qweight_ptr + (here // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=in_w, other=0)
        g = offs_k // group_size
        scales = tl.load(scales_ptr + g[:, None] * stride_sg + offs_n[None, :] * stride_sn, mask=in_w, other=0.0)
        zeros = tl.load(zeros_ptr + g[:, None] * stride_zg + (offs_n // 8)[None, :] * stride_zn, mask=in_w, other=0)
        zeros = (zeros >> zeros_shifter[None, :]) & 0xF
        zeros = (zeros + 1) * scales
        b = (b >> shifter[:, None]) & 0xF
        b = b * scales - zeros
        acc += tl.dot(a, b)
    out = acc.to(tl.float16)
    offs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    if SPLIT_K > 1:
        tl.atomic_add(offs, out, mask=inside, sem="release")
    else:
        tl.store(offs, out, mask=inside)


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["block_m"]) * triton.cdiv(N, meta["block_n"]), meta["SPLIT_K"])
