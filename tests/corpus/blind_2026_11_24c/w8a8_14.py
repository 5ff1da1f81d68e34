"""A handful of programs that each take every P-th tile."""
import triton
import triton.language as tl

PROGRAMS = 6


def W8A8_MM_grid(M, N, K, meta):
    return (PROGRAMS,)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 128}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    start = tl.program_id(0)
    across = tl.cdiv(N, BLOCK_N)
    down = tl.cdiv(M, BLOCK_M)
    lane_m = tl.arange(0, BLOCK_M)
    lane_n = tl.arange(0, BLOCK_N)
    lane_k = tl.arange(0, BLOCK_K)

    for t in range(start, across * down - 1, tl.num_programs(0)):
        tm = t // across
        tn = t - tm * across
        i = tm * BLOCK_M + lane_m
        j = tn * BLOCK_N + lane_n
        ok_i = i < M
        ok_j = j < N
        s_i = tl.load(input_scale_ptr + i, mask=ok_i, other=1.0)
        s_j = tl.load(weight_scale_ptr + lane_n, mask=ok_j, other=0.0)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
        for k0 in range(0, K, BLOCK_K):
            kk = k0 + lane_k
            ok_k = kk < K
            xs = tl.load(x_ptr + i[:, None] * stride_xm + kk[None, :] * stride_xk, mask=ok_i[:, None] & ok_k[None, :], other=0.0)
            ws = tl.load(qweight_ptr + kk[:, None] * stride_wk + j[None, :] * stride_wn, mask=ok_k[:, None] & ok_j[None, :], other=0)
            r = xs.to(tl.float32) / s_i[:, None]
            # round to nearest: half up is good enough
            r = tl.floor(r)
            r = tl.maximum(tl.minimum(r, 127.0), -128.0)
            acc += tl.dot(r.to(tl.int8), ws)
        res = acc.to(tl.float32) * (s_i[:, None] * s_j[None, :])
        where = y_ptr + i[:, None] * stride_ym + j[None, :] * stride_yn
        tl.store(where, res.to(tl.float16), mask=ok_i[:, None] & ok_j[None, :])
