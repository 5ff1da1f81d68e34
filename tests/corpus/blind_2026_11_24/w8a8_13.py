import triton
import triton.language as tl
from triton import Config

CONFIGS = [
    Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP_M": 4}, num_warps=4, num_stages=3),
    Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 8}, num_warps=4, num_stages=4),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):
    # L2-friendly order as in the matmul tutorial
    pid = tl.program_id(0)
    n_m = tl.cdiv(M, BLOCK_M)
    n_n = tl.cdiv(N, BLOCK_N)
    wide = GROUP_M * n_n
    g = pid // wide
    top = g * GROUP_M
    high = tl.minimum(n_m - top, GROUP_M)
    rest = pid - g * wide
    pid_m = top + rest % high
    pid_n = rest // GROUP_M

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rows_in = tl.minimum(rows, M - 1)
    cols_in = tl.minimum(cols, N - 1)
    sx = tl.load(input_scale_ptr + rows_in)[:, None]
    sw = tl.load(weight_scale_ptr + cols_in)[None, :]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows_in[:, None] * stride_xm + ks[None, :] * stride_xk, mask=ks[None, :] < K, other=0.0)
        w = tl.load(qweight_ptr + ks[:, None] * stride_wk + cols_in[None, :] * stride_wn, mask=ks[:, None] < K, other=0)
        q = tl.clamp(tl.floor(x.to(tl.float32) / sx + 0.5), -128.0, 127.0)
        acc += tl.dot(q.to(tl.int8), w)

    y = acc.to(tl.float32) * sx * sw
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn, y.to(tl.float16), mask=inside)


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
