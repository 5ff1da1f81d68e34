import triton
import triton.language as tl


@triton.jit
def unpack(words, BK: tl.constexpr, BN: tl.constexpr):
    # words [BK // 8, BN] -> [BK, BN]
    a = tl.join(words, words >> 4)          # [.., BN, 2]
    b = tl.join(a, a >> 8)                  # [.., BN, 2, 2]
    c = tl.join(b, b >> 16)                 # [.., BN, 2, 2, 2]
    # the columns go last
    c = c.permute(0, 2, 3, 4, 1)
    q = tl.reshape(c, (BK, BN)) & 15
    return ((q ^ 8) - 8).to(tl.float16)


@triton.autotune(
    [triton.Config(dict(BLOCK_M=16, BLOCK_N=64, BLOCK_K=64), num_warps=4),
     triton.Config(dict(BLOCK_M=32, BLOCK_N=32, BLOCK_K=128), num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
             stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pm = pid // tiles_n
    pn = pid - pm * tiles_n
    m = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    j = tl.arange(0, BLOCK_K // 8)
    xp = x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk
    wp = qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    left = K
    while left > 0:
        x = tl.load(xp, (m[:, None] < M) & (k[None, :] < left), 0.0)
        w = tl.load(wp, (j[:, None] < left // 8) & (n[None, :] < N), 0)
        acc += tl.dot(x, unpack(w, BLOCK_K, BLOCK_N))
        xp += BLOCK_K * stride_xk
        wp += (BLOCK_K // 8) * stride_wk
        left -= BLOCK_K
    s = tl.load(scales_ptr + n, n < N, 0.0)
    acc *= s[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc, (m[:, None] < M) & (n[None, :] < N))
