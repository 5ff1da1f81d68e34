"""Weights take the row side of the product: acc is Y transposed."""
import triton
import triton.language as tl


@triton.jit
def pick_tile(pid, tiles_m, tiles_n, GROUP: tl.constexpr):
    in_group = GROUP * tiles_n
    g = pid // in_group
    first = g * GROUP
    rows = min(tiles_m - first, GROUP)
    rest = pid % in_group
    return first + rest % rows, rest // rows


@triton.jit
def to_q(x, inv):
    t = x.to(tl.float32) * inv
    t = tl.minimum(tl.maximum(t, -128.0), 127.0)
    up = tl.where(t < 0, -0.5, 0.5)
    return (t + up).to(tl.int8)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP": 4}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 2}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    pm, pn = pick_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    token = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    chan = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    st = tl.load(input_scale_ptr + token, mask=token < M, other=1.0)
    sc = tl.load(weight_scale_ptr + chan, mask=chan < N, other=1.0)
    inv = 1.0 / st

    xT = x_ptr + k[:, None] * stride_xk + token[None, :] * stride_xm
    wT = qweight_ptr + chan[:, None] * stride_wn + k[None, :] * stride_wk
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.int32)
    left = K
    while left > 0:
        a = tl.load(wT, mask=(chan < N)[:, None] & (k < left)[None, :], other=0)
        b = tl.load(xT, mask=(k < left)[:, None] & (token < M)[None, :], other=0.0)
        acc += tl.dot(a, to_q(b, inv[None, :]))
        xT += BLOCK_K * stride_xk
        wT += BLOCK_K * stride_wk
        left -= BLOCK_K
    yT = acc.to(tl.float32) * st[:, None] * sc[None, :]
    out = y_ptr + token[None, :] * stride_ym + chan[:, None] * stride_yn
    tl.store(out, yT.to(tl.float16), mask=(chan < N)[:, None] & (token < M)[None, :])
