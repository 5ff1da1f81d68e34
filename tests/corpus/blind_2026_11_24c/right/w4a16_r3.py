"""Loops swapped: nibbles outside, words inside, words loaded one tile ahead."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "WK": 16}, num_warps=2)],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WK: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ok_m = (m < M)[:, None]
    ok_n = (n < N)[None, :]
    rows = K // 8
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(8):
        j = tl.arange(0, WK)
        word = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=(j < rows)[:, None] & ok_n, other=0)
        for base in range(0, rows, WK):
            j = base + tl.arange(0, WK)
            ahead = j + WK
            soon = tl.load(qweight_ptr + ahead[:, None] * stride_wk + n[None, :] * stride_wn, mask=(ahead < rows)[:, None] & ok_n, other=0)
            x = tl.load(x_ptr + m[:, None] * stride_xm + (j * 8 + i)[None, :] * stride_xk, mask=ok_m & (j < rows)[None, :], other=0.0)
            q = (word << (28 - 4 * i)) >> 28
            acc += tl.dot(x, q.to(tl.float16))
            word = soon
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0)
    y = acc * s[None, :].to(tl.float32)
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y.to(tl.float16), mask=ok_m & ok_n)


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
