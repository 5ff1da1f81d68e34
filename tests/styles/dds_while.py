"""DDS with a while loop over the blocks of a row, and pointers that move along."""
import time

import torch
import triton
import triton.language as tl

start_time = time.time()


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
        p_val += BLOCK * BLOCK

    o_n = i_n * BLOCK + o_b
    p_y = y_ptr + o_m[:, None] * stride_ym + o_n[None, :] * stride_yn
    tl.store(p_y, b_y.to(y_ptr.dtype.element_ty), mask=m_m)


class SparseLinearDraft(torch.nn.Module):
    """My own layer, before I read the provided one."""

    def __init__(self, weight):
        super().__init__()
        self.bsr = weight.to_sparse_bsr((32, 32))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.bsr.shape[0], dtype=x.dtype, device=x.device)
        DDS_MM[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK_M"]), self.bsr.shape[0] // 32)](
            x, self.bsr.values(), self.bsr.crow_indices().int(), self.bsr.col_indices().int(), y,
            x.shape[0], y.shape[1], x.shape[1], *x.stride(), *y.stride(), BLOCK=32)
        return y


layer = SparseLinearDraft(torch.randn(1024, 1024).half()).cuda()
print(layer(torch.randn(16, 1024).half().cuda()).sum(), time.time() - start_time)
