import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config(dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=64), num_warps=4, num_stages=3),
        triton.Config(dict(BLOCK_M=16, BLOCK_N=128, BLOCK_K=128), num_warps=4, num_stages=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    # column-major order of tiles: neighbours share W
    m0 = (pid % num_m) * BLOCK_M
    n0 = (pid // num_m) * BLOCK_N

    X = tl.make_block_ptr(
        base=x_ptr, shape=(M, K), strides=(stride_xm, stride_xk),
        offsets=(m0, 0), block_shape=(BLOCK_M, BLOCK_K), order=(1, 0),
    )
    # a [K, N] view of the stored [N, K]: the first axis is the contiguous one
    W = tl.make_block_ptr(
        base=qweight_ptr, shape=(K, N), strides=(stride_wk, stride_wn),
        offsets=(0, n0), block_shape=(BLOCK_K, BLOCK_N), order=(0, 1),
    )
    sx_block = tl.make_block_ptr(input_scale_ptr, (M,), (1,), (m0,), (BLOCK_M,), (0,))
    sw_block = tl.make_block_ptr(weight_scale_ptr, (N,), (1,), (n0,), (BLOCK_N,), (0,))
    sx = tl.load(sx_block, boundary_check=(0,), padding_option="zero")
    sx = tl.where(sx == 0.0, 1.0, sx)  # the padded tail would divide by zero
    sw = tl.load(sw_block, boundary_check=(0,), padding_option="zero")

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(X, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(W, boundary_check=(0, 1), padding_option="zero")
        r = x.to(tl.float32) / sx[:, None]
        q = tl.clamp(tl.floor(r + 0.5), -128.0, 127.0).to(tl.int8)
        acc += tl.dot(q, w)
        X = tl.advance(X, (0, BLOCK_K))
        W = tl.advance(W, (0, BLOCK_K))

    y = acc.to(tl.float32) * sx[:, None] * sw[None, :]
    Y = tl.make_block_ptr(
        base=y_ptr, shape=(M, N), strides=(stride_ym, stride_yn),
        offsets=(m0, n0), block_shape=(BLOCK_M, BLOCK_N), order=(1, 0),
    )
    tl.store(Y, y.to(tl.float16), boundary_check=(0, 1))
