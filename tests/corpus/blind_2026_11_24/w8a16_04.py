import triton
import triton.language as tl
from triton import cdiv


@triton.jit
def load_weight(w_ptr, s, k, n, K, N, stride_k, stride_n):
    q = tl.load(w_ptr + k[:, None] * stride_k + n[None, :] * stride_n, mask=(k[:, None] < K) & (n[None, :] < N), other=0)
    return q.to(s.dtype) + s[None, :]


@triton.autotune([triton.Config({"BM": 32, "BN": 32, "BK": 64}, num_warps=4), triton.Config({"BM": 16, "BN": 128, "BK": 32}, num_warps=4)], key=["M"])
@triton.jit
def W8A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    acc = tl.zeros([BM, BN], tl.float32)
    start = 0
    while start < K:
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        acc = tl.dot(x, load_weight(qweight_ptr, s, k, n, K, N, stride_wk, stride_wn), acc)
        start += BM
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(y_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


W8A16_MM_grid = lambda M, N, K, meta: (cdiv(M, meta["BM"]), cdiv(N, meta["BN"]))
