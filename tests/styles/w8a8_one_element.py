"""W8A8: one program for each element of Y, on one axis; a vector along K and one sum at the end."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_K": 128}, num_warps=1)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    m = pid // N
    n = pid % N
    s = tl.load(input_scale_ptr + m)
    acc = tl.zeros((BLOCK_K,), tl.int32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m * stride_xm + k * stride_xk, mask=k < K, other=0.0).to(tl.float32)
        w = tl.load(qweight_ptr + k * stride_wk + n * stride_wn, mask=k < K, other=0).to(tl.int32)
        q = tl.clamp(tl.floor(x / s + 0.5), -128.0, 127.0).to(tl.int32)
        acc += q * w
    y = tl.sum(acc, axis=0).to(tl.float32) * s * tl.load(weight_scale_ptr + n)
    tl.store(y_ptr + m * stride_ym + n, y.to(tl.float16))


def W8A8_MM_grid(M, N, K, meta):
    return (M * N,)
