"""W4A16 with split-K: axis 1 of the grid shares out the K tiles, the partial sums meet in an atomic add."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "SPLIT_K": 4}, num_warps=2, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 3}, num_warps=4, num_stages=4),
    ],
    key=["M", "N", "K"],
    reset_to_zero=["y_ptr"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid = tl.program_id(0)
    part = tl.program_id(1)
    num_n = tl.cdiv(N, BLOCK_N)
    offs_m = (pid // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = (pid % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = part * BLOCK_K + tl.arange(0, BLOCK_K)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    turns = tl.cdiv(K, BLOCK_K) // SPLIT_K
    for _ in range(0, turns):
        in_k = offs_k < K
        x = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
            mask=(offs_m < M)[:, None] & in_k[None, :], other=0.0,
        )
        word = tl.load(
            qweight_ptr + (offs_k // 8)[:, None] * stride_wk + offs_n[None, :] * stride_wn,
            mask=in_k[:, None] & (offs_n < N)[None, :], other=0,
        )
        nibble = (word >> ((offs_k & 7) << 2)[:, None]) & 15
        q = (nibble ^ 8) - 8
        acc += tl.dot(x, q.to(tl.float16))
        offs_k += BLOCK_K * SPLIT_K

    scale = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0)
    y = (acc * scale[None, :]).to(tl.float16)
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    keep = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    tl.atomic_add(y_ptrs, y, mask=keep, sem="relaxed")
