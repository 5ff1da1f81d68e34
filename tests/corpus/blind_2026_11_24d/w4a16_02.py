"""W4A16: eight small products for each tile of words, one for each nibble."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "WORDS": 16}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "WORDS": 32}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WORDS: tl.constexpr,
):
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    om = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    on = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ow = tl.arange(0, WORDS)
    total_words = K // 8

    w_ptrs = qweight_ptr + ow[:, None] * stride_wk + on[None, :] * stride_wn
    x_ptrs = x_ptr + om[:, None] * stride_xm + (8 * ow)[None, :] * stride_xk
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for w0 in range(0, total_words, WORDS):
        alive = ow < total_words - w0
        packed = tl.load(w_ptrs, mask=alive[:, None] & (on < N)[None, :], other=0)
        for nibble in tl.static_range(8):
            x = tl.load(x_ptrs + nibble * stride_xk, mask=(om < M)[:, None] & alive[None, :], other=0.0)
            u = (packed // (1 << (4 * nibble))) & 15
            q = (u ^ 8) - 8
            acc = tl.dot(x, q.to(tl.float16), acc)
        w_ptrs += WORDS * stride_wk
        x_ptrs += 8 * WORDS * stride_xk

    scale = tl.load(scales_ptr + on, mask=on < N, other=1.0)
    acc *= scale[None, :]
    y_ptrs = y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(om < M)[:, None] & (on < N)[None, :])
