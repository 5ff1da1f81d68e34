"""W8A8 with split-K: a program keeps the first block of its X while it goes through several tiles along N, so that it loads it for the first alone."""

import triton
import triton.language as tl


@triton.jit
def quant(x, s):
    r = x.to(tl.float32) / s[:, None]
    r = tl.minimum(tl.maximum(r, -128.0), 127.0)
    return tl.floor(r + 0.5).to(tl.int8)


@triton.autotune(configs=[
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=2),
], key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    s_m = tl.load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)
    share = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    begin = tl.program_id(1) * share
    end = tl.minimum(begin + share, K)
    if begin < K:
        k = begin + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + offs_m.to(tl.int64)[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk, mask=(offs_m < M)[:, None] & (k < K)[None, :], other=0.0)
        kept = quant(x, s_m)
        for n0 in range(tl.program_id(2) * BLOCK_N, N, BLOCK_N * tl.num_programs(2)):
            offs_n = n0 + tl.arange(0, BLOCK_N)
            k = begin + tl.arange(0, BLOCK_K)
            w = tl.load(qweight_ptr + k[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=(k < K)[:, None] & (offs_n < N)[None, :], other=0)
            acc = tl.dot(kept, w, out_dtype=tl.int32)
            for start in range(begin + BLOCK_K, end, BLOCK_K):
                k = start + tl.arange(0, BLOCK_K)
                x = tl.load(x_ptr + offs_m.to(tl.int64)[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk, mask=(offs_m < M)[:, None] & (k < K)[None, :], other=0.0)
                w = tl.load(qweight_ptr + k[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=(k < K)[:, None] & (offs_n < N)[None, :], other=0)
                acc = tl.dot(quant(x, s_m), w, acc, out_dtype=tl.int32)
            s_n = tl.load(weight_scale_ptr + offs_n, mask=offs_n < N, other=0.0)
            y = (acc.to(tl.float32) * s_m[:, None] * s_n[None, :]).to(tl.float16)
            yp = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n[None, :] * stride_yn
            inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
            if SPLIT_K == 1:
                tl.store(yp, y, mask=inside)
            else:
                tl.atomic_add(yp, y, mask=inside)


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta['BLOCK_M']), meta['SPLIT_K'], min(4, triton.cdiv(N, meta['BLOCK_N'])))
