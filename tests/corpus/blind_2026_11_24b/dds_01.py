"""DDS with a while loop over the blocks of a row, and pointers that move along."""
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK_M": 32}, num_warps=2), triton.Config({"BLOCK_M": 64})], key=["M"])
@triton.jit
def DDS_MM(x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
           M, N, K, stride_xm, stride_xk, stride_ym, stride_yn,
           BLOCK: tl.constexpr, BLOCK_M: tl.constexpr):
    i_m, i_n = tl.program_id(0), tl.program_id(1)
    o_m = i_m * BLOCK_M + tl.arange(0, BLOCK_M)
    o_b = tl.arange(0, BLOCK)
    m_m = o_m[:, None] < M

    p = tl.load(crow_indices_ptr + i_n)
    stop = tl.load(crow_indices_ptr + i_n + 1)
    p_col = col_indices_ptr + p
    p_val = values_ptr + p * BLOCK * BLOCK + (o_b[:, None] * BLOCK + o_b[None, :])
    b_y = tl.zeros([BLOCK_M, BLOCK], dtype=tl.float32)
    while p < stop:
        o_k = tl.load(p_col) * BLOCK + o_b
        b_x = tl.load(x_ptr + o_m[:, None] * stride_xm + o_k[None, :] * stride_xk, mask=m_m, other=0)
        b_w = tl.load(p_val)
        b_y += tl.dot(b_x, tl.trans(b_w))
        p += 1
        p_col += 1
        p_val += BLOCK

    o_n = i_n * BLOCK + o_b
    p_y = y_ptr + o_m[:, None] * stride_ym + o_n[None, :] * stride_yn
    tl.store(p_y, b_y.to(y_ptr.dtype.element_ty), mask=m_m)
