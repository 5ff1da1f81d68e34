"""W4A16 computed as Y^T = W X^T, so that a few tokens fill the narrow side of the matrix instruction."""
import triton
import triton.language as tl

configs = [
    triton.Config({"BLOCK_N": 64, "BLOCK_T": 16, "BLOCK_K": 64}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_N": 128, "BLOCK_T": 32, "BLOCK_K": 32}, num_warps=4, num_stages=3),
]


@triton.autotune(configs, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr,
):
    channels = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[:, None]
    tokens = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_T), dtype=tl.float32)

    k_row = tl.arange(0, BLOCK_K)[None, :]
    k_col = tl.arange(0, BLOCK_K)[:, None]
    w_ptrs = qweight_ptr + channels * stride_wn + (k_row // 8) * stride_wk
    x_ptrs = x_ptr + tokens * stride_xm + k_col * stride_xk
    bit = (k_row % 8) * 4
    remaining = K
    while remaining > 0:
        word = tl.load(w_ptrs, mask=(channels < N) & (k_row < remaining), other=0)
        x_t = tl.load(x_ptrs, mask=(tokens < M) & (k_col < remaining), other=0.0)
        nibble = word >> bit & 0xF
        q = (nibble - ((nibble >> 3) << 4)).to(tl.float16)
        acc = tl.dot(q, x_t, acc)
        w_ptrs += (BLOCK_K // 8) * stride_wk
        x_ptrs += (BLOCK_K // 8) * stride_xk
        remaining -= BLOCK_K

    scale = tl.load(scales_ptr + channels, mask=channels < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + tokens * stride_ym + channels * stride_yn, (acc * scale).to(tl.float16),
             mask=(channels < N) & (tokens < M))


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_T"]))
