"""Step is the greatest power of two that divides the group, never more than 32: a tile lies in one group."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "HALF": 4}, num_warps=4)], key=["M", "N", "K", "group_size"])
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HALF: tl.constexpr,
):
    WORDS: tl.constexpr = HALF
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    ok_n = n < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    words_a_group = group_size // 8
    for g in range(K // group_size):
        zw = tl.load(zeros_ptr + g * stride_zg + (n >> 3) * stride_zn, mask=ok_n, other=0)
        z = 1 + ((zw >> ((n & 7) << 2)) & 15)
        s = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=ok_n, other=0.0)
        for w0 in range(0, words_a_group, WORDS):
            inside = w0 + tl.arange(0, WORDS)
            j = g * words_a_group + inside
            word = tl.load(qweight_ptr + j[:, None] * stride_wk + n[None, :] * stride_wn, mask=(inside < words_a_group)[:, None] & ok_n[None, :], other=0)
            q = (word[:, None, :] >> (tl.arange(0, 8) << 2)[None, :, None]) & 15
            v = (q - z[None, None, :]).to(tl.float16) * s[None, None, :]
            kk = (w0 * 8) + tl.arange(0, 8 * WORDS)
            x = tl.load(
                x_ptr + m[:, None] * stride_xm + (g * group_size + kk)[None, :] * stride_xk,
                mask=(m < M)[:, None] & (kk < group_size)[None, :], other=0.0,
            )
            acc += tl.dot(x, tl.reshape(v, (8 * WORDS, BLOCK_N)))
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None] & ok_n[None, :])


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_M"]))
