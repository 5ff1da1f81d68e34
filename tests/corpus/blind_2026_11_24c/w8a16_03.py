import triton
import triton.language as tl


@triton.jit
def int8_to_half(w):
    # w + 128 in the low byte of 1024.0
    u = (w.to(tl.int16) & 0xFF) ^ 0x80
    return (u | 0x6400).to(tl.int16).to(tl.float16, bitcast=True) - 1024.0


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    m0 = tl.program_id(0) // tl.cdiv(N, BLOCK_N) * BLOCK_M
    n0 = tl.program_id(0) % tl.cdiv(N, BLOCK_N) * BLOCK_N
    m = m0 + tl.arange(0, BLOCK_M)
    n = n0 + tl.arange(0, BLOCK_N)
    x_blk = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_blk = tl.make_block_ptr(qweight_ptr, (K, N), (stride_wk, stride_wn), (0, n0), (BLOCK_K, BLOCK_N), (0, 1))
    scale = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_blk, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_blk, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, int8_to_half(w), acc)
        x_blk = tl.advance(x_blk, (0, BLOCK_K))
        w_blk = tl.advance(w_blk, (BLOCK_K, 0))
    acc = acc * scale.to(tl.float32)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
