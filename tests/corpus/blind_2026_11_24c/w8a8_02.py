import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.autotune(
    configs=[
        triton.Config({"TM": 32, "TN": 64, "TK": 64}, num_warps=4, num_stages=2),
        triton.Config({"TM": 64, "TN": 32, "TK": 32}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):
    col_tile = tl.program_id(0)
    row_tile = tl.program_id(1)
    rows = row_tile * TM + tl.arange(0, TM)
    cols = col_tile * TN + tl.arange(0, TN)
    sx = tl.load(input_scale_ptr + rows, mask=rows < M, other=1.0)
    sw = tl.load(weight_scale_ptr + cols, mask=cols < N, other=1.0)

    x_bp = tl.make_block_ptr(
        base=x_ptr, shape=(M, K), strides=(stride_xm, stride_xk),
        offsets=(row_tile * TM, 0), block_shape=(TM, TK), order=(1, 0),
    )
    w_bp = tl.make_block_ptr(
        base=qweight_ptr, shape=(K, N), strides=(stride_wk, stride_wn),
        offsets=(0, col_tile * TN), block_shape=(TK, TN), order=(0, 1),
    )
    total = tl.zeros((TM, TN), dtype=tl.int32)
    for _ in range(tl.cdiv(K, TK)):
        x = tl.load(x_bp, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        w = tl.load(w_bp, boundary_check=(0, 1), padding_option="zero")
        v = tl.clamp(x, -128.0, 127.0)
        v = v / sx[:, None]
        q = libdevice.rint(v).to(tl.int8)
        total = tl.dot(q, w, total, out_dtype=tl.int32)
        x_bp = tl.advance(x_bp, (0, TK))
        w_bp = tl.advance(w_bp, (TK, 0))

    out = total.to(tl.float32) * sx[:, None]
    out = out * sw[None, :]
    y_bp = tl.make_block_ptr(
        base=y_ptr, shape=(M, N), strides=(stride_ym, stride_yn),
        offsets=(row_tile * TM, col_tile * TN), block_shape=(TM, TN), order=(1, 0),
    )
    tl.store(y_bp, out.to(tl.float16), boundary_check=(0, 1))


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["TN"]), triton.cdiv(M, meta["TM"]))
