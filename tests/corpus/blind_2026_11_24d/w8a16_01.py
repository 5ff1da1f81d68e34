"""W8A16, tiles in groups, X through a block pointer."""
import triton
import triton.language as tl


@triton.jit
def tile_of(pid, tiles_m, tiles_n, GROUP: tl.constexpr):
    in_group = GROUP * tiles_n
    first = pid // in_group * GROUP
    return first + pid % in_group % GROUP, pid % in_group // GROUP


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP": 4}, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 4}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    tm, tn = tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    m = tm * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tn * BLOCK_N + tl.arange(0, BLOCK_N)
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (tm * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        q = tl.load(qweight_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn, mask=(k[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(x, q.to(tl.float16), acc)
        x_tile = tl.advance(x_tile, (0, BLOCK_K))

    s = tl.load(scales_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    y_ptrs = y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn
    tl.store(y_ptrs, (acc * s[None, :]).to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
