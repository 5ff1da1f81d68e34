"""W8A8 with block pointers on a two-dimensional grid."""
import triton
import triton.language as tl


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["TM"]), triton.cdiv(N, meta["TN"]))


@triton.autotune(
    configs=[
        triton.Config({"TM": 16, "TN": 64, "TK": 32}, num_warps=2),
        triton.Config({"TM": 64, "TN": 64, "TK": 64}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):
    row0 = tl.program_id(0) * TM
    col0 = tl.program_id(1) * TN
    x_block = tl.make_block_ptr(x_ptr, (M, K), (stride_xm, stride_xk), (row0, 0), (TM, TK), (1, 0))
    w_block = tl.make_block_ptr(qweight_ptr, (K, N), (stride_wk, stride_wn), (0, col0), (TK, TN), (0, 1))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (stride_ym, stride_yn), (row0, col0), (TM, TN), (1, 0))

    rows = row0 + tl.arange(0, TM)
    cols = col0 + tl.arange(0, TN)
    sx = tl.load(input_scale_ptr + rows, mask=rows < M, other=1.0)
    sw = tl.load(weight_scale_ptr + cols, mask=cols < N, other=0.0)

    total = tl.zeros((TM, TN), dtype=tl.int32)
    for _ in range(0, K, TK):
        x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_block, boundary_check=(0, 1), padding_option="zero")
        scaled = x.to(tl.float32) / sx[:, None]
        rounded = tl.where(scaled < 0, tl.ceil(scaled - 0.5), tl.floor(scaled + 0.5))
        q = tl.clamp(rounded, -128.0, 127.0).to(tl.int8)
        total = tl.dot(q, w, total, out_dtype=tl.int32)
        x_block = tl.advance(x_block, (0, TK))
        w_block = tl.advance(w_block, (TK, 0))

    out = total.to(tl.float32) * sx[:, None] * sw[None, :]
    tl.store(y_block, out.to(tl.float16), boundary_check=(0,))
