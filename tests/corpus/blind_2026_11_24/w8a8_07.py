import triton
import triton.language as tl

sizes = [(32, 32, 32), (16, 64, 64)]


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": a, "BLOCK_N": b, "BLOCK_K": c}, num_warps=4) for a, b, c in sizes],
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
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = offs_m < M
    mask_n = offs_n < N
    in_scale = tl.load(input_scale_ptr + offs_m, mask=mask_m, other=1.0)
    we_scale = tl.load(weight_scale_ptr + offs_n, mask=mask_n, other=0.0)

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        offs_k = start + tl.arange(0, BLOCK_K)
        mask_k = offs_k < K
        x_tile = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk,
                         mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        w_tile = tl.load(qweight_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn,
                         mask=mask_k[:, None] & mask_n[None, :], other=0)
        # quantise this tile
        v = x_tile.to(tl.float32) / in_scale[:, None]
        v = tl.floor(v + 0.5)
        v = tl.clamp(v, -128.0, 127.0)
        total = tl.dot(v.to(tl.int8), w_tile, total, out_dtype=tl.int32)

    # back to real numbers
    result = total.to(tl.float32)
    result = result * we_scale[None, :]
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn,
             result.to(tl.float16), mask=mask_m[:, None] & mask_n[None, :])
