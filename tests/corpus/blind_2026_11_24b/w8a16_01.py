"""int8 weights, half activations. Dequantised while the sum is still in registers."""
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"R": 32, "S": 32, "D": 32}, num_warps=4), triton.Config({"R": 16, "S": 64, "D": 64}, num_warps=4)],
    key=["M", "N", "K"],
)
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    R: tl.constexpr, S: tl.constexpr, D: tl.constexpr,
):
    p = tl.program_id(0) * R + tl.arange(0, R)
    q = tl.program_id(1) * S + tl.arange(0, S)
    pin, qin = p < M, q < N
    gain = tl.load(scales_ptr + q, mask=qin, other=0.0).to(tl.float32)
    held = tl.zeros((R, S), tl.float32)
    for low in range(0, K, D):
        d = low + tl.arange(0, D)
        din = d < K
        left = tl.load(x_ptr + p[:, None] * stride_xm + d[None, :] * stride_xk, mask=pin[:, None] & din[None, :], other=0.0)
        right = tl.load(qweight_ptr + d[:, None] * stride_wk + q[None, :] * stride_wn, mask=din[:, None] & qin[None, :], other=0)
        held = (held + tl.dot(left, right.to(tl.float16))) * gain[None, :]
    tl.store(y_ptr + p[:, None] * stride_ym + q[None, :] * stride_yn, held.to(tl.float16), mask=pin[:, None] & qin[None, :])


def W8A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["R"]), triton.cdiv(N, meta["S"]))
