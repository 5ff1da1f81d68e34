"""W8A16 by bits: the byte with its sign flipped under 0x64 is 1152 + q in fp16; Y^T = W X^T; K split among programs."""
import triton
import triton.language as tl

MAGIC = tl.constexpr(0x6480)
BIAS = tl.constexpr(1152.0)


@triton.jit
def as_half(q):
    bits = (q.to(tl.uint8, bitcast=True).to(tl.uint16)) ^ MAGIC
    return bits.to(tl.uint16).to(tl.float16, bitcast=True) - BIAS


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 1}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K)
    first = tl.program_id(1) * share
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for turn in range(first, tl.minimum(first + share, tl.cdiv(K, BLOCK_K))):
        k = turn * BLOCK_K + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + k[:, None] * stride_xk + m[None, :] * stride_xm, mask=(k[:, None] < K) & (m[None, :] < M), other=0.0)
        w = tl.load(qweight_ptr + n[:, None] * stride_wn + k[None, :] * stride_wk, mask=(n[:, None] < N) & (k[None, :] < K), other=0)
        acc += tl.dot(as_half(w), x)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    y = (acc * s[:, None]).to(tl.float16)
    target = y_ptr + n[:, None] * stride_yn + m[None, :] * stride_ym
    inside = (n[:, None] < N) & (m[None, :] < M)
    if SPLIT_K > 1:
        tl.atomic_add(target, y, mask=inside)
    else:
        tl.store(target, y, mask=inside)
