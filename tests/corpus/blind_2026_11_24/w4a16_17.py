import triton
import triton.language as tl

configs = []
for bn in (32, 64):
    configs.append(triton.Config({"BLOCK_N": bn, "BLOCK_T": 16, "BLOCK_K": 32}, num_warps=4, num_stages=3))


@triton.autotune(configs, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Y transposed: the weight on the left, the tokens on the right."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[:, None]
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)[None, :]
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    acc = tl.zeros((BLOCK_N, BLOCK_T), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        kr = k0 + tl.arange(0, BLOCK_K)[None, :]
        kc = k0 + tl.arange(0, BLOCK_K)[:, None]
        xt = tl.load(x_ptr + t * stride_xm + kc * stride_xk, mask=(t < M) & (kc < K // 2), other=0.0)
        row = kr // 8
        word = tl.load(qweight_ptr + n * stride_wn + row * stride_wk, mask=(n < N) & (kr < K), other=0)
        q = (word << (28 - 4 * (kr % 8 ^ 1))) >> 28
        acc = tl.dot(q.to(tl.float16), xt, acc)
        acc *= s
    tl.store(y_ptr + t * stride_ym + n * stride_yn, acc.to(tl.float16), mask=(n < N) & (t < M))


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_T"]))
