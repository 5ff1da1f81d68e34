import triton
import triton.language as tl
from functools import partial, reduce
import operator

config = partial(triton.Config, num_stages=3, num_warps=4)
CONFIGS = [config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": sk}) for sk in (1, 2, 4)]
assert reduce(operator.mul, [c.kwargs["SPLIT_K"] for c in CONFIGS]) == 8


@triton.jit
def every_other_bit(z):
    """The even bits of z, moved together."""
    z = z & 0x55555555
    z = (z | (z >> 1)) & 0x33333333
    z = (z | (z >> 2)) & 0x0F0F0F0F
    z = (z | (z >> 4)) & 0x00FF00FF
    z = (z | (z >> 8)) & 0x0000FFFF
    return z


@triton.jit
def morton(z):
    return every_other_bit(z >> 1), every_other_bit(z)


@triton.jit
def quantize(x, scale, LOW: tl.constexpr = -128.0, HIGH: tl.constexpr = 127.0):
    r = tl.div_rn(x.to(tl.float32), tl.broadcast_to(scale, x.shape))
    r = tl.clamp(r, LOW, HIGH)
    MAGIC: tl.constexpr = 12582912.0
    return ((r + MAGIC) - MAGIC).to(tl.int8)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid = tl.program_id(0)
    slice_k = pid // SPLIT_K % SPLIT_K
    row, col = morton(pid // SPLIT_K)
    if row * BLOCK_M >= M:
        return
    if col * BLOCK_N >= N:
        return
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = col * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    scale = tl.load(input_scale_ptr + m, mask=m < M, other=1.0)
    per_slice = tl.cdiv(tl.cdiv(K, SPLIT_K), BLOCK_K) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k0 in range(slice_k * per_slice, min(K, slice_k * per_slice + per_slice), BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m.to(tl.int64) * stride_xm + k[None, :].to(tl.int64) * stride_xk,
                    mask=(m < M) & (k[None, :] < K), other=0.0)
        w = tl.load(qweight_ptr + k[:, None] * stride_wk + n.to(tl.int64) * stride_wn,
                    mask=(k[:, None] < K) & (n < N), other=0)
        acc = tl.dot(quantize(x, scale), w, acc, out_dtype=tl.int32)
    out = acc.to(tl.float32) * (scale * tl.load(weight_scale_ptr + n, mask=n < N, other=0.0))
    where = y_ptr + m.to(tl.int64) * stride_ym + n.to(tl.int64) * stride_yn
    if SPLIT_K == 1:
        tl.store(where, out.to(tl.float16), mask=(m < M) & (n < N))
    else:
        tl.atomic_add(where, out.to(tl.float16), mask=(m < M) & (n < N), sem="relaxed", scope="gpu")


def W8A8_MM_grid(M, N, K, meta):
    side = max(triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    return ((side := triton.next_power_of_2(side)) * side * meta["SPLIT_K"], 1, 1)
