"""W4A16, a row a program: for each column a vector product along K, words opened by a static_range over a tuple of shifts."""
import triton
import triton.language as tl

SHIFTS = tl.constexpr((28, 24, 20, 16, 12, 8, 4, 0))


@triton.autotune(configs=[triton.Config({"WORDS": 64}, num_warps=2)], key=[])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    WORDS: tl.constexpr,
):
    m = tl.program_id(0)
    for n in range(N):
        acc = tl.zeros((WORDS,), tl.float32)
        for j0 in range(0, K // 8, WORDS):
            j = j0 + tl.arange(0, WORDS)
            w = tl.load(qweight_ptr + j * stride_wk + n, mask=j < K // 8, other=0)
            for i in tl.static_range(len(SHIFTS)):
                x = tl.load(x_ptr + m * stride_xm + (8 * j + i) * stride_xk, mask=j < K // 8, other=0.0)
                acc += x.to(tl.float32) * ((w << SHIFTS[i]) >> 28).to(tl.float32)
        tl.store(y_ptr + m * stride_ym + n, tl.sum(acc, axis=0) * tl.load(scales_ptr + n))


def W4A16_MM_grid(M, N, K, meta):
    return (M,)
