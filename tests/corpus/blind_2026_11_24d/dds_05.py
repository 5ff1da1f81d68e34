"""DDS: a block is multiplied in two halves along its columns."""
import triton
import triton.language as tl

HALF = tl.constexpr(16)


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 64}, num_warps=4), triton.Config({"BLOCK_M": 16}, num_warps=1)],
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
    row = tl.program_id(1)
    token = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = row * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, HALF)
    is_token = (token < M)[:, None]
    acc = tl.zeros([BLOCK_M, BLOCK], dtype=tl.float32)

    block = tl.load(crow_indices_ptr + row)
    end = tl.load(crow_indices_ptr + row + 1)
    while block < end:
        k0 = tl.load(col_indices_ptr + block) * BLOCK
        values = values_ptr + block * BLOCK * BLOCK + tl.arange(0, BLOCK)[None, :] * BLOCK
        for h in tl.static_range(0, BLOCK, HALF):
            x = tl.load(x_ptr + token[:, None] * stride_xm + (k0 + h + c)[None, :] * stride_xk, mask=is_token, other=0.0)
            w = tl.load(values + c[:, None])
            acc += tl.dot(x, w)
        block += 1

    tl.store(y_ptr + token[:, None] * stride_ym + channel[None, :] * stride_yn, acc.to(tl.float16), mask=is_token)
