import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK_N": 128, "BLOCK_K": 64}), triton.Config({"BLOCK_N": 64, "BLOCK_K": 128})],
                 key=["M", "N", "K"])
@triton.jit
def W8A8_MM(x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
            stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
            BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    token = tl.program_id(0)
    inside = token < M
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    full = (tl.program_id(1) + 1) * BLOCK_N <= N
    scale = tl.load(input_scale_ptr + token, mask=inside, other=1.0)
    acc = tl.zeros((BLOCK_N,), dtype=tl.int32)
    pos = 0
    while pos < K:
        here = inside and pos < K
        x = tl.load(x_ptr + token * stride_xm + (pos + k) * stride_xk, mask=here & (pos + k < K), other=0.0)
        x = tl.floor(x.to(tl.float32) / scale + 0.5)
        x = tl.clamp(x, -128.0, 127.0).to(tl.int32)
        columns = (n < N) | full
        w = tl.load(qweight_ptr + (pos + k)[:, None] * stride_wk + n[None, :] * stride_wn,
                    mask=(pos + k < K)[:, None] & columns[None, :] & inside, other=0)
        acc += tl.sum(x[:, None] * w.to(tl.int32), axis=0)
        pos += BLOCK_N
    w_scale = tl.load(weight_scale_ptr + n, mask=n < N, other=1.0)
    y = acc.to(tl.float32) * scale * w_scale
    if inside:
        if full:
            tl.store(y_ptr + token * stride_ym + n * stride_yn, y.to(tl.float16), mask=True)
        else:
            tl.store(y_ptr + token * stride_ym + n * stride_yn, y.to(tl.float16), mask=n < N)


def W8A8_MM_grid(M, N, K, meta):
    return (M + 2, triton.cdiv(N, meta["BLOCK_N"]))
