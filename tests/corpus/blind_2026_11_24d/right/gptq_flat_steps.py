"""GPTQ: no tile crosses a group. One flat loop counts the steps of all groups; the scale is applied when a group is over."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "DEPTH": 32}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "DEPTH": 64}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    m = tl.program_id(0) % tl.cdiv(M, BLOCK_M) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) // tl.cdiv(M, BLOCK_M) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.cdiv(group_size, DEPTH)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    group = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for t in range(K // group_size * steps):
        g = t // steps
        inner = t % steps * DEPTH + tl.arange(0, DEPTH)
        k = g * group_size + inner
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m[:, None] < M) & (inner[None, :] < group_size), other=0.0)
        word = tl.load(qweight_ptr + (k[:, None] // 8) * stride_wk + n[None, :] * stride_wn, mask=(inner[:, None] < group_size) & (n[None, :] < N), other=0)
        z = tl.load(zeros_ptr + g * stride_zg + n // 8 * stride_zn, mask=n < N, other=0)
        # z + 1 = 16 - (~z & 15), so q - (z + 1) = q + (~z & 15) - 16
        rest = (~(z >> (4 * (n % 8)))) & 15
        q = ((word >> (4 * (k[:, None] % 8))) & 15) + rest[None, :] - 16
        group = tl.dot(x, q.to(tl.float16), group)
        s = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=n < N, other=0.0).to(tl.float32)
        over = (t + 1) % steps == 0
        total = tl.where(over, total + group * s[None, :], total)
        group = tl.where(over, 0.0, group)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
