import triton
import triton.language as tl

CONFIGS = [triton.Config({"ROWS": 8}, num_warps=4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, ROWS: tl.constexpr,
):
    tile = tl.program_id(0)
    block_row = tl.program_id(1)
    rows = tile * ROWS + tl.arange(0, ROWS)
    r = tl.arange(0, BLOCK)
    c = tl.arange(0, BLOCK)
    first = tl.load(crow_indices_ptr + block_row)
    count = tl.load(crow_indices_ptr + block_row + 1) - first
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for i in range(count):
        b = i
        k = tl.load(col_indices_ptr + b) * BLOCK + c
        w = tl.load(values_ptr + b * BLOCK * BLOCK + r[:, None] * BLOCK + c[None, :]).to(tl.float32)
        x = tl.load(x_ptr + rows[:, None] * stride_xm + k[None, :] * stride_xk, mask=rows[:, None] < M, other=0.0).to(tl.float32)
        acc += tl.sum(x[:, None, :] * w[None, :, :], axis=2)
    n = block_row * BLOCK + r
    tl.store(y_ptr + rows[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), mask=rows[:, None] < M)


def DDS_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["ROWS"]), N // 32)
