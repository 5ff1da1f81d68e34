"""W8A8 turned over: Y^T = W X^T, the weight on the side of the rows."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
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
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    i = tl.program_id(0) // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.arange(0, BLOCK_K)
    xT_ptrs = x_ptr + r[:, None] * stride_xk + i[None, :] * stride_xm
    wT_ptrs = qweight_ptr + j[:, None] * stride_wn + r[None, :] * stride_wk
    sx = tl.load(input_scale_ptr + i, mask=i < M, other=1.0)
    sw = tl.load(weight_scale_ptr + j, mask=j < N, other=1.0)

    accT = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.int32)
    for s in range(K // BLOCK_K):
        rest = K - s * BLOCK_K
        xT = tl.load(xT_ptrs, mask=(r[:, None] < rest) & (i[None, :] < M), other=0.0)
        wT = tl.load(wT_ptrs, mask=(j[:, None] < N) & (r[None, :] < rest), other=0)
        z = xT.to(tl.float32) / sx[None, :]
        z = tl.floor(z + 0.5)
        accT = tl.dot(wT, z.to(tl.int8), accT, out_dtype=tl.int32)
        xT_ptrs += BLOCK_K * stride_xk
        wT_ptrs += BLOCK_K * stride_wk

    yT = accT.to(tl.float32) * sx[:, None] * sw[None, :]
    y = tl.trans(yT)
    tl.store(y_ptr + i[:, None] * stride_ym + j[None, :] * stride_yn, y.to(tl.float16), mask=(i[:, None] < M) & (j[None, :] < N))
