import triton
import triton.language as tl

@triton.jit
def unpack(words, WORDS: tl.constexpr, COLS: tl.constexpr):
    """int32 [WORDS, COLS] -> fp16 [8 * WORDS, COLS]"""
    i = tl.arange(0, 8)
    signed = (tl.expand_dims(words, 2) << (28 - 4 * i)[None, None, :]) >> 28   # WORDS, COLS, 8
    return signed.permute(0, 2, 1).reshape(WORDS * 8, COLS).to(tl.float16)

@triton.autotune(configs=[triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "SPLIT_K": s}, num_warps=4)
                          for m, n, s in zip([16, 32, 64], [64, 32, 64], [4, 1, 2])], key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr):
    pid, slice_k = tl.program_id(0), tl.program_id(1)
    tn = tl.cdiv(N, BLOCK_N)
    m = pid // tn * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid % tn * BLOCK_N + tl.arange(0, BLOCK_N)
    per = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    lo = slice_k * per
    hi = tl.minimum(lo + per, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(lo, hi, BLOCK_K):
        kx = k + tl.arange(0, BLOCK_K)
        kw = k // 8 + tl.arange(0, BLOCK_K // 8)
        x = tl.load(x_ptr + m[:, None] * stride_xm + kx[None, :] * stride_xk, mask=(m[:, None] < M) & (kx[None, :] < hi), other=0.0)
        w = tl.load(qweight_ptr + kw[:, None] * stride_wk + n[None, :] * stride_wn, mask=(kw[:, None] * 8 < hi) & (n[None, :] < N), other=0)
        acc = tl.dot(x, unpack(w, BLOCK_K // 8, BLOCK_N), acc, input_precision="tf32", max_num_imprecise_acc=0)
    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    acc = acc * s[None, :]
    out = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
    ok = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out, acc.to(tl.float16), ok) if SPLIT_K == 1 else tl.atomic_add(out, acc.to(tl.float16), ok, sem="relaxed", scope="gpu")
