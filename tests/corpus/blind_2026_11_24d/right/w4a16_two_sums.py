"""W4A16: unsigned nibbles and a sum of x to put the sign right. q = (u ^ 8) - 8, so x q = x (u ^ 8) - 8 x."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "W": 16}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "W": 16}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, W: tl.constexpr,
):
    pid = tl.program_id(0)
    rows = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    products = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    plain = tl.zeros((BLOCK_M, W), dtype=tl.float32)
    # the nibble is the outer loop here: eight walks down the weight, each for one residue of k
    for i in range(8):
        for j0 in range(0, K // 8, W):
            j = j0 + tl.arange(0, W)
            x = tl.load(x_ptr + rows[:, None] * stride_xm + (8 * j + i)[None, :] * stride_xk, mask=(rows[:, None] < M) & (j[None, :] < K // 8), other=0.0)
            word = tl.load(qweight_ptr + j[:, None] * stride_wk + cols[None, :] * stride_wn, mask=(j[:, None] < K // 8) & (cols[None, :] < N), other=0)
            u = ((word ^ -2004318072) >> (4 * i)) & 15  # 0x88888888: every nibble with its top bit turned over
            products = tl.dot(x, u.to(tl.float16), products)
            plain += x.to(tl.float32)
    total = products - 8.0 * tl.sum(plain, axis=1)[:, None]
    s = tl.load(scales_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn, (total * s[None, :]).to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))
