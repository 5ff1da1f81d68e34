import triton
import triton.language as tl

TILES = [(16, 32, 64), (32, 64, 32)]


@triton.jit
def signed(u):
    return tl.where(u >= 8, u - 16, u)


@triton.jit
def grab(base, r, c, sr, sc, ok):
    return tl.load(base + r[:, None] * sr + c[None, :] * sc, mask=ok, other=0)


@triton.autotune(
    configs=[triton.Config({"BM": a, "BN": b, "BK": c, "G": 3}, num_warps=4, num_stages=1) for a, b, c in TILES],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr,
):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    # G columns of tiles at a time, rows fastest inside
    band = pid // (G * nm)
    width = min(nn - band * G, G)
    inside = pid - band * G * nm
    tm = inside // width
    tn = band * G + inside % width
    rows = tm * BM + tl.arange(0, BM)
    cols = tn * BN + tl.arange(0, BN)
    mm = (rows < M)[:, None]
    nn_ok = (cols < N)[None, :]
    kk = tl.arange(0, BK)
    shift = (kk % 8 * 4)[:, None]
    x = grab(x_ptr, rows, kk, stride_xm, stride_xk, mm & (kk < K)[None, :])
    w = grab(qweight_ptr, kk // 8, cols, stride_wk, stride_wn, (kk < K)[:, None] & nn_ok)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        k = i * BK + kk
        q = signed((w >> shift) & 0xF).to(tl.float16)
        acc = tl.dot(x, q, acc)
        x = grab(x_ptr, rows, k, stride_xm, stride_xk, mm & (k < K)[None, :])
        w = grab(qweight_ptr, k // 8, cols, stride_wk, stride_wn, (k < K)[:, None] & nn_ok)
    sc = tl.load(scales_ptr + cols, mask=cols < N, other=0)
    res = (acc * sc[None, :].to(tl.float32)).to(tl.float16)
    tl.store(y_ptr + rows[:, None] * stride_ym + cols[None, :] * stride_yn, res, mask=mm & nn_ok)


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)
