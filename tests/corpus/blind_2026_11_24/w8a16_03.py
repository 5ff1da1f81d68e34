import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 128, "NPROG": 3})], key=["M", "N", "K"])
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NPROG: tl.constexpr,
):
    """Each program walks over all column tiles of its rows; weights are scaled in fp32, before the product."""
    for pid_m in range(tl.program_id(0), tl.cdiv(M, BLOCK_M), NPROG):
        m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        xrow = x_ptr + m[:, None] * stride_xm
        for n0 in range(0, N, BLOCK_N):
            n = n0 + tl.arange(0, BLOCK_N)
            ns = pid_m * BLOCK_N + tl.arange(0, BLOCK_N)
            s = tl.load(scales_ptr + ns, ns < N, other=0).to(tl.float32)
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for k0 in range(0, K, BLOCK_K):
                k = k0 + tl.arange(0, BLOCK_K)
                x = tl.load(xrow + k[None, :] * stride_xk, (m < M)[:, None] & (k < K)[None, :], other=0.0)
                w = tl.load(qweight_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn, (k < K)[:, None] & (n < N)[None, :], other=0)
                acc = tl.dot(x.to(tl.float32), w.to(tl.float32) * s[None, :], acc, input_precision="ieee")
            tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, acc.to(tl.float16), (m < M)[:, None] & (n < N)[None, :])


def W8A16_MM_grid(M, N, K, meta):
    return (meta["NPROG"],)
