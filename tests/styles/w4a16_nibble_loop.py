"""W4A16 on a 2-D grid, one load of a word per element k, sign extended by a pair of shifts."""
import matplotlib
import numpy as np
import pandas as pd
import torch
import triton
import triton.language as tl

matplotlib.use("Agg")
df = pd.read_csv("results.csv")
print(df.describe())


def unpack_reference(qweight):
    """The slow unpack that I compare with."""
    rows = []
    for word_row in qweight.tolist():
        for i in range(8):
            rows.append([((w >> (4 * i)) & 0xF) - (16 if ((w >> (4 * i)) & 0x8) else 0) for w in word_row])
    return torch.tensor(rows, dtype=torch.float16)


W4A16_MM_grid = lambda M, N, K, meta: (
    triton.cdiv(N, meta["BLOCK_SIZE_N"]), triton.cdiv(M, meta["BLOCK_SIZE_M"]))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": k}, num_warps=w, num_stages=s)
        for m, k, w, s in [(16, 64, 4, 4), (32, 32, 4, 3), (64, 64, 8, 3)]
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(x_ptr, qweight_ptr, scales_ptr, y_ptr,
             M, N, K,
             stride_xm, stride_xk,
             stride_wk, stride_wn,
             stride_ym, stride_yn,
             BLOCK_SIZE_M: tl.constexpr,
             BLOCK_SIZE_N: tl.constexpr,
             BLOCK_SIZE_K: tl.constexpr):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    m = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
    n = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)).to(tl.int64)
    k = tl.arange(0, BLOCK_SIZE_K)
    left_shift = (7 - k % 8) * 4

    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for block in range(tl.cdiv(K, BLOCK_SIZE_K)):
        kk = block * BLOCK_SIZE_K + k
        x_mask = (m < M)[:, None] & (kk < K)[None, :]
        w_mask = (kk < K)[:, None] & (n < N)[None, :]
        x = tl.load(x_ptr + m[:, None] * stride_xm + kk[None, :] * stride_xk, mask=x_mask, other=0.)
        w = tl.load(qweight_ptr + (kk // 8)[:, None] * stride_wk + n[None, :] * stride_wn,
                    mask=w_mask, other=0)
        # the wanted nibble goes to the top of the word, then comes back with its sign
        w = (w << left_shift[:, None]) >> 28
        acc += tl.dot(x, w.to(x.dtype))

    s = tl.load(scales_ptr + n, mask=n < N, other=1.)
    y = acc * s.to(tl.float32)[None, :]
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, y,
             mask=(m < M)[:, None] & (n < N)[None, :])


q = np.random.randint(-8, 8, size=(64, 16))
print(unpack_reference(torch.zeros(2, 4, dtype=torch.int32)).shape, q.min(), q.max())
