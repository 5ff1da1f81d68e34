"""W8A16 whose slices each walk all of K, and make X's tile zero where it is another slice's."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "SPLIT_K": 4})], key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr):
    z = tl.program_id(1)
    tn = tl.cdiv(N, BLOCK_N)
    m = (tl.program_id(0) // tn * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    n = (tl.program_id(0) % tn * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k.to(tl.int64)[None, :] * stride_xk, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        q = tl.load(qweight_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn, mask=(k < K)[:, None] & (n < N)[None, :], other=0)
        x = tl.where(k0 // BLOCK_K % SPLIT_K == z, x, 0.0)
        acc = tl.dot(x, q.to(tl.float16), acc)
    y = (acc * tl.load(scales_ptr + n, mask=n < N, other=0.0)[None, :]).to(tl.float16)
    tl.atomic_add(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y, mask=(m < M)[:, None] & (n < N)[None, :])
