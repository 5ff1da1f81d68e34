"""GPTQ: sum_k x (q - z - 1) = sum_k x q - (z + 1) sum_k x, group by group."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4),
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    lane = tl.arange(0, BLOCK_K)
    row_ok = rows < M
    col_ok = cols < N

    y = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    x_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for g in range(K // group_size):
        xq = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for inner in range(0, group_size, BLOCK_K):
            lane_ok = inner + lane < group_size
            k = g * group_size + inner + lane
            x = tl.load(x_ptr + rows[:, None] * stride_xm + k[None, :] * stride_xk, mask=row_ok[:, None] & lane_ok[None, :], other=0.0)
            word = tl.load(qweight_ptr + (k // 8)[:, None] * stride_wk + cols[None, :] * stride_wn, mask=lane_ok[:, None] & col_ok[None, :], other=0)
            q = (word >> (4 * (k % 8))[:, None]) & 15
            xq = tl.dot(x, q.to(tl.float16), xq)
            x_sum += tl.sum(x.to(tl.float32), axis=1)
        s = tl.load(scales_ptr + g * stride_sg + cols * stride_sn, mask=col_ok, other=0.0).to(tl.float32)
        z = tl.load(zeros_ptr + g * stride_zg + cols // 8 * stride_zn, mask=col_ok, other=0)
        z = ((z >> (cols % 8 * 4)) & 15) + 1
        y += (xq - x_sum[:, None] * z.to(tl.float32)[None, :]) * s[None, :]

    out = y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn
    tl.store(out, y.to(tl.float16), mask=row_ok[:, None] & col_ok[None, :])
