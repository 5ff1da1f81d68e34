# bonus lab
# words, zeros and X through block pointers; fp32 weights and a dot in TF32 terms avoided by rounding once
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2),
             triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4, num_stages=2)],
    key=["M"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    tiles = tl.cdiv(N, BLOCK_N)
    m0 = tl.program_id(0) // tiles * BLOCK_M
    n0 = tl.program_id(0) % tiles * BLOCK_N
    X = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
    W = tl.make_block_ptr(qweight_ptr, (K // 8, N), (stride_wk, stride_wn), (0, n0), (BLOCK_K // 8, BLOCK_N), (1, 0))
    Y = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    n = n0 + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for turn in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(X, boundary_check=(0, 1), padding_option="zero")
        words = tl.load(W, boundary_check=(0, 1), padding_option="zero")
        word_k = turn * BLOCK_K + 8 * tl.arange(0, BLOCK_K // 8)
        g = (word_k // group_size)[:, None]
        ok = (word_k < K)[:, None] & (n < N)[None, :]
        s = tl.load(scales_ptr + g * stride_sg + n[None, :] * stride_sn, mask=ok, other=0.0).to(tl.float32)
        z = tl.load(zeros_ptr + g * stride_zg + (n // 8)[None, :] * stride_zn, mask=ok, other=0)
        z = ((z >> (4 * (n % 8))[None, :]) & 0xF).to(tl.float32) + 1
        q = ((words[:, None, :] >> (4 * tl.arange(0, 8))[None, :, None]) & 0xF).to(tl.float32)
        w = tl.fma(q, s[:, None, :] + 0 * q, -(z * s)[:, None, :] + 0 * q)
        acc += tl.dot(x, tl.reshape(w, (BLOCK_K, BLOCK_N)).to(tl.float16))
        X = tl.advance(X, (0, BLOCK_K))
        W = tl.advance(W, (BLOCK_K // 8, 0))
    tl.store(Y, acc.to(tl.float16), boundary_check=(0, 1))
