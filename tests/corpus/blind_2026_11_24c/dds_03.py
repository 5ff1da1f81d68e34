"""The next column index is fetched one block ahead."""
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": bm}, num_warps=w, num_stages=2) for bm, w in ((16, 1), (64, 4))]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):
    pid = tl.program_id(0)
    rows_of_blocks = N // BLOCK
    r = pid % rows_of_blocks
    m = pid // rows_of_blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    e = tl.arange(0, BLOCK)
    begin = tl.load(crow_indices_ptr + r)
    end = tl.load(crow_indices_ptr + r + 1)
    x_row = x_ptr + m[:, None] * stride_xm
    v = values_ptr + begin * (BLOCK * BLOCK) + e[None, :] * BLOCK + e[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)
    col = tl.load(col_indices_ptr + begin, mask=begin < end, other=0)
    i = begin
    while i < end:
        i += 1
        following = tl.load(col_indices_ptr + i, mask=i < end, other=0)
        k = following * BLOCK + e
        x = tl.load(x_row + k[None, :] * stride_xk, mask=m[:, None] < M, other=0.0)
        acc += tl.dot(x, tl.load(v))
        v += BLOCK * BLOCK
        col = following
    n = r * BLOCK + e
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=(m < M)[:, None])


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // 32),)
