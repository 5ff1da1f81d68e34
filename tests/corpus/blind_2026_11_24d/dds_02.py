"""DDS: the column index is loaded one block ahead."""
import triton
import triton.language as tl


def DDS_MM_grid(M, N, K, meta):
    return (N // 32 * triton.cdiv(M, meta["BLOCK_M"]),)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": bm}, num_warps=4, num_stages=3) for bm in (16, 32)],
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
    rows = N // BLOCK
    br = tl.program_id(0) % rows
    rm = tl.program_id(0) // rows * BLOCK_M + tl.arange(0, BLOCK_M)
    rb = tl.arange(0, BLOCK)
    safe_m = tl.minimum(rm, M - 1)
    xp = x_ptr + safe_m[:, None] * stride_xm + rb[None, :] * stride_xk
    b0 = tl.load(crow_indices_ptr + br)
    b1 = tl.load(crow_indices_ptr + br + 1)
    vp = values_ptr + b0 * (BLOCK * BLOCK) + rb[None, :] * BLOCK + rb[:, None]

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    col = tl.load(col_indices_ptr + b0, mask=b0 < b1, other=0)
    for b in range(b0, b1):
        col = tl.load(col_indices_ptr + b + 1, mask=b + 1 < b1, other=0)
        x = tl.load(xp + col * BLOCK * stride_xk)
        v = tl.load(vp)
        acc += tl.dot(x, v)
        vp += BLOCK * BLOCK

    rn = br * BLOCK + rb
    tl.store(y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn, acc.to(tl.float16), mask=(rm < M)[:, None])
