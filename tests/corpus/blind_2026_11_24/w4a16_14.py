import triton
import triton.language


@triton.autotune(
    [triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "WORDS": 16}, num_warps=2), triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "WORDS": 32})],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
             BLOCK_M: triton.language.constexpr, BLOCK_N: triton.language.constexpr, WORDS: triton.language.constexpr):
    pid = triton.language.program_id(axis=0)
    columns = triton.language.cdiv(N, BLOCK_N)
    m = (pid // columns) * BLOCK_M + triton.language.arange(0, BLOCK_M)
    n = (pid % columns) * BLOCK_N + triton.language.arange(0, BLOCK_N)
    acc = triton.language.zeros((BLOCK_M, BLOCK_N), dtype=triton.language.float32)
    last = (K // 8 - 1) // WORDS
    for block in range(last, 0, -1):
        word = block * WORDS + triton.language.arange(0, WORDS)
        inside = word < K // 8
        words = triton.language.load(qweight_ptr + word[:, None] * stride_wk + n[None, :] * stride_wn,
                                      mask=inside[:, None] & (n < N)[None, :], other=0)
        for nibble in triton.language.static_range(8):
            k = word * 8 + nibble
            x = triton.language.load(x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk,
                                     mask=(m < M)[:, None] & inside[None, :], other=0)
            q = (words << (28 - 4 * nibble)) >> 28
            acc = triton.language.dot(x, q.to(triton.language.bfloat16).to(triton.language.float16), acc)
    scale = triton.language.load(scales_ptr + n, mask=n < N, other=0)
    triton.language.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc * scale,
                          mask=(m < M)[:, None] & (n < N)[None, :])
