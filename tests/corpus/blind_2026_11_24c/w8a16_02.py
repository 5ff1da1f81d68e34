"""A token a program: sums along K stay apart until the end, then they are added up once."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BN": 64, "BK": 64}, num_warps=4)], key=["M", "N", "K"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BN: tl.constexpr, BK: tl.constexpr,
):
    token = tl.program_id(1)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    n_ok = n < N
    part = tl.zeros((BN, BK), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + token * stride_xm + k * stride_xk, mask=k < K, other=0.0).to(tl.float32)
        w = tl.load(qweight_ptr + n[:, None] * stride_wn + k[None, :] * stride_wk, mask=n_ok[:, None] & (k < K)[None, :], other=0)
        part += w.to(tl.float32) * x[None, :]
    y = tl.sum(part, axis=1)
    y *= tl.load(scales_ptr + n, mask=n_ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + token * stride_ym + n * stride_yn, y.to(tl.float16), mask=n_ok)


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), min(M, 256))
