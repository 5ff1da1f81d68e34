"""Offsets are made once, before the loop: inside it only the start of a tile moves. Two sums, so that two products overlap."""
import triton
import triton.language as tl

side = tl.constexpr(32)


@triton.jit
def add_block(total, b, x_here, v_here, cols_ptr, feature_step, row_in):
    jump = tl.load(cols_ptr + b) * side
    piece = tl.load(x_here + jump * feature_step, mask=row_in, other=0.0)
    block = tl.load(v_here + b * side * side)
    return tl.dot(piece, block, total)


@triton.autotune(configs=[triton.Config({"LINES": 16}, num_warps=4, num_stages=1), triton.Config({"LINES": 32}, num_warps=4, num_stages=2)], key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, LINES: tl.constexpr,
):
    which_row = tl.program_id(0)
    line = tl.program_id(1) * LINES + tl.arange(0, LINES)
    ramp = tl.arange(0, BLOCK)
    row_in = line[:, None] < M
    x_here = x_ptr + line[:, None] * stride_xm + ramp[None, :]
    v_here = values_ptr + ramp[None, :] * BLOCK + ramp[:, None]
    opened = tl.load(crow_indices_ptr + which_row)
    closed = tl.load(crow_indices_ptr + which_row + 1)
    evens = tl.zeros((LINES, BLOCK), tl.float32)
    odds = tl.zeros((LINES, BLOCK), tl.float32)
    for b in range(opened, closed, 2):
        evens = add_block(evens, b, x_here, v_here, col_indices_ptr, stride_xk, row_in)
        if b + 1 < closed:
            odds = add_block(odds, b + 1, x_here, v_here, col_indices_ptr, stride_xk, row_in)
    y_here = y_ptr + line[:, None] * stride_ym + (which_row * BLOCK + ramp)[None, :] * stride_yn
    tl.store(y_here, (evens + odds).to(tl.float16), mask=row_in)


def DDS_MM_grid(M, N, K, meta):
    return (N // 32, triton.cdiv(M, meta["LINES"]))
