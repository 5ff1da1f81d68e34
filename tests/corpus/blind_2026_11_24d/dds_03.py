"""DDS: two blocks a step, and the odd one at the end."""
import triton
import triton.language as tl


@triton.jit
def one_product(acc, b, x_ptrs, v_ptrs, col_indices_ptr, stride_xk, inside, BLOCK: tl.constexpr):
    at = tl.load(col_indices_ptr + b) * BLOCK
    x = tl.load(x_ptrs + at * stride_xk, mask=inside, other=0.0)
    v = tl.load(v_ptrs + b * BLOCK * BLOCK)
    return tl.dot(x, v, acc)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32}, num_warps=2, num_stages=3),
        triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_r = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    lane = tl.arange(0, BLOCK)
    inside = offs_m[:, None] < M
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + lane[None, :] * stride_xk
    v_ptrs = values_ptr + lane[None, :] * BLOCK + lane[:, None]
    first = tl.load(crow_indices_ptr + pid_r)
    last = tl.load(crow_indices_ptr + pid_r + 1)

    even = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    odd = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    pairs = (last - first) // 2
    for p in range(pairs):
        b = first + 2 * p
        even = one_product(even, b, x_ptrs, v_ptrs, col_indices_ptr, stride_xk, inside, BLOCK)
        odd = one_product(odd, b + 1, x_ptrs, v_ptrs, col_indices_ptr, stride_xk, inside, BLOCK)
    if (last - first) % 2 == 1:
        even = one_product(even, first + pairs, x_ptrs, v_ptrs, col_indices_ptr, stride_xk, inside, BLOCK)

    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + (pid_r * BLOCK + lane)[None, :] * stride_yn
    tl.store(y_ptrs, (even + odd).to(tl.float16), mask=inside)
