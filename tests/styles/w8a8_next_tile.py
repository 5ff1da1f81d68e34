"""W8A8 by 37 programs: each loads the X of its next tile, or slice, before it adds this one."""

import triton
import triton.language as tl


@triton.jit
def quant(x, s):
    r = x.to(tl.float32) / s[:, None]
    r = tl.minimum(tl.maximum(r, -128.0), 127.0)
    return tl.floor(r + 0.5).to(tl.int8)


@triton.autotune(configs=[
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 1}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=4, num_stages=2),
], key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    share = tl.cdiv(tl.cdiv(K, SPLIT_K), BLOCK_K) * BLOCK_K
    item = tl.program_id(0)
    offs_m = item // SPLIT_K // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    k = item % SPLIT_K * share + tl.arange(0, BLOCK_K)
    x = tl.load(x_ptr + offs_m.to(tl.int64)[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk, mask=(offs_m < M)[:, None] & (k < K)[None, :], other=0.0)
    while item < tiles * SPLIT_K:
        pid = item // SPLIT_K
        begin = item % SPLIT_K * share
        tiles_n = tl.cdiv(N, BLOCK_N)
        offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        s_m = tl.load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)

        end = tl.minimum(begin + share, K)
        step = begin
        following = item + tl.num_programs(0)
        while step < end:
            k = step + tl.arange(0, BLOCK_K)
            w = tl.load(qweight_ptr + k[:, None] * stride_wk + offs_n[None, :] * stride_wn, mask=(k < K)[:, None] & (offs_n < N)[None, :], other=0)
            q = quant(x, s_m)
            step += BLOCK_K
            last = step >= end
            next_m = tl.where(last, following // SPLIT_K // tiles_n, pid // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
            next_k = tl.where(last, following % SPLIT_K * share, step) + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + next_m.to(tl.int64)[:, None] * stride_xm + next_k.to(tl.int64)[None, :] * stride_xk, mask=(next_m < M)[:, None] & (next_k < K)[None, :], other=0.0)
            acc = tl.dot(q, w, acc, out_dtype=tl.int32)
        if begin >= end:
            next_m = following // SPLIT_K // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            next_k = following % SPLIT_K * share + tl.arange(0, BLOCK_K)
            x = tl.load(x_ptr + next_m.to(tl.int64)[:, None] * stride_xm + next_k.to(tl.int64)[None, :] * stride_xk, mask=(next_m < M)[:, None] & (next_k < K)[None, :], other=0.0)
        s_n = tl.load(weight_scale_ptr + offs_n, mask=offs_n < N, other=0.0)
        y = (acc.to(tl.float32) * s_m[:, None] * s_n[None, :]).to(tl.float16)
        yp = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n[None, :] * stride_yn
        inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
        if SPLIT_K == 1:
            tl.store(yp, y, mask=inside)
        else:
            tl.atomic_add(yp, y, mask=inside)

        item = following


def W8A8_MM_grid(M, N, K, meta):
    return (min(37, triton.cdiv(M, meta['BLOCK_M']) * triton.cdiv(N, meta['BLOCK_N']) * meta['SPLIT_K']),)
