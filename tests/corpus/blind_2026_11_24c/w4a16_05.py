"""Y^T = W^T X^T: the columns of the weight are rows of the accumulator."""
import triton
import triton.language as tl


@triton.jit
def open_word(w, BN: tl.constexpr, BK: tl.constexpr):
    """[BN, BK / 8] -> [BN, BK], signed fp16"""
    s = (tl.arange(0, 8) * 4)[None, None, :]
    q = (w[:, :, None] << (28 - s)) >> 28
    return tl.reshape(q, (BN, BK)).to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    im = (pid % tiles_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    io = (pid // tiles_m) * BLOCK_N + tl.arange(0, BLOCK_N)
    im_safe = tl.where(im < M, im, 0)
    io_safe = tl.where(io < N, io, 0)
    accT = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ik = k + tl.arange(0, BLOCK_K)
        iw = k // 8 + tl.arange(0, BLOCK_K // 8)
        xT = tl.load(x_ptr + ik[:, None] * stride_xk + im_safe[None, :] * stride_xm, mask=(ik < K)[:, None], other=0.0)
        w = tl.load(qweight_ptr + io_safe[:, None] * stride_wn + iw[None, :] * stride_wk, mask=(iw * 8 < K)[None, :], other=0)
        accT += tl.dot(open_word(w, BLOCK_N, BLOCK_K), xT)
    scale = tl.load(scales_ptr + io_safe).to(tl.float32)
    accT = accT * scale[:, None]
    y = tl.reshape(accT, (BLOCK_M, BLOCK_N))
    tl.store(y_ptr + im[:, None] * stride_ym + io[None, :] * stride_yn, y.to(tl.float16), mask=(im < M)[:, None] & (io < N)[None, :])
