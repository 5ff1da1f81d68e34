"""W8A8 with device-side tensor descriptors (TMA on Hopper), plain pointers for an X they cannot describe."""
import triton
import triton.language as tl


@triton.jit
def quantize(x, scale):
    r = x.to(tl.float32) / scale[:, None]
    r = tl.floor(r + 0.5)
    return tl.clamp(r, -128.0, 127.0).to(tl.int8)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m0 = pid // tiles_n * BLOCK_M
    n0 = pid % tiles_n * BLOCK_N
    offs_m = m0 + tl.arange(0, BLOCK_M)
    offs_n = n0 + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_scale = tl.load(input_scale_ptr + offs_m, mask=offs_m < M, other=1.0)

    # W is stored [N, K] with K a multiple of 16 bytes, so a descriptor is always legal for it
    w_desc = tl.make_tensor_descriptor(
        qweight_ptr, shape=[N, K], strides=[stride_wn, 1], block_shape=[BLOCK_N, BLOCK_K]
    )

    # X may be any strided view: a descriptor wants a unit last stride and 16-byte rows on a 16-byte base
    x_aligned = (stride_xk == 1) & (stride_xm % 8 == 0) & (x_ptr.to(tl.int64) % 16 == 0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    if x_aligned:
        x_desc = tl.make_tensor_descriptor(
            x_ptr, shape=[M, K], strides=[stride_xm, 1], block_shape=[BLOCK_M, BLOCK_K]
        )
        for k in range(0, K, BLOCK_K):
            x = x_desc.load([m0, k])
            w = w_desc.load([n0, k])
            acc = tl.dot(quantize(x, x_scale), w.T, acc, out_dtype=tl.int32)
    else:
        for k in range(0, K, BLOCK_K):
            x_ptrs = x_ptr + offs_m[:, None] * stride_xm + (k + offs_k)[None, :] * stride_xk
            x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & ((k + offs_k)[None, :] < K), other=0.0)
            w = w_desc.load([n0, k])
            acc = tl.dot(quantize(x, x_scale), w.T, acc, out_dtype=tl.int32)

    w_scale = tl.load(weight_scale_ptr + offs_n, mask=offs_n < N, other=1.0)
    y = acc.to(tl.float32) * x_scale[:, None] * w_scale[None, :]
    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, y.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
