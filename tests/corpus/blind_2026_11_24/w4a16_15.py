import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    m0 = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M
    n0 = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N
    offs_m = m0 + tl.arange(0, BLOCK_M)
    offs_n = n0 + tl.arange(0, BLOCK_N)
    shifts = 4 * tl.arange(0, 8)

    # rows of N int32, N a multiple of 8: always whole 16-byte units
    w_desc = tl.make_tensor_descriptor(qweight_ptr, [K // 8, N], [stride_wk, 1], [BLOCK_K // 8, BLOCK_N])

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
            mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0,
        )
        words = w_desc.load([k, n0])
        nibbles = (words[:, None, :] >> shifts[None, :, None]) & 0xF
        q = tl.where(nibbles < 8, nibbles, nibbles - 15).to(tl.float16)
        acc = tl.dot(x, q.reshape(BLOCK_K, BLOCK_N), acc)

    scale = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0)
    y = (acc * scale[None, :]).to(tl.float16)
    if (stride_yn == 1) & (stride_ym % 8 == 0) & (y_ptr.to(tl.int64) % 16 == 0):
        y_desc = tl.make_tensor_descriptor(y_ptr, [M, N], [stride_ym, 1], [BLOCK_M, BLOCK_N])
        y_desc.store([m0, n0], y)
    else:
        y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
        tl.store(y_ptrs, y, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
