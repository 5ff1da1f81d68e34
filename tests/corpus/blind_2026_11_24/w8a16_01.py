import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BM": 16, "BN": 32, "WORDS": 16}, num_warps=2), triton.Config({"BM": 64, "BN": 32, "WORDS": 32}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, WORDS: tl.constexpr,
):
    words_ptr = qweight_ptr.to(tl.pointer_type(tl.int32))
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    word = tl.arange(0, WORDS)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K // 4, WORDS):
        inside = first + word < K // 4
        packed = tl.load(words_ptr + (first + word)[:, None] + n * (stride_wn // 4), mask=inside[:, None] & (n < N), other=0)
        for byte in tl.static_range(4):
            q = (packed >> (8 * byte)) & 0xFF
            x = tl.load(x_ptr + m * stride_xm + (4 * (first + word) + byte)[None, :] * stride_xk, mask=(m < M) & inside[None, :], other=0.0)
            acc = tl.dot(x, q.to(tl.float16), acc)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + m * stride_ym + n * stride_yn, (acc * s).to(tl.float16), mask=(m < M) & (n < N))


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
