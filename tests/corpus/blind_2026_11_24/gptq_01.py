import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"COLUMNS": 128, "WORDS": 8}, num_warps=4),
        triton.Config({"COLUMNS": 64, "WORDS": 16}, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn, stride_ym, stride_yn,
    COLUMNS: tl.constexpr, WORDS: tl.constexpr,
):
    row, n = tl.program_id(1), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for word in range(0, K // 8, WORDS):
        w = word + tl.arange(0, WORDS)
        inside = (w < K // 8)[:, None] & (n < N)[None, :]
        packed = tl.load(qweight_ptr + w[:, None] * stride_wk + n[None, :] * stride_wn, mask=inside, other=0)
        group = w // group_size
        scale = tl.load(scales_ptr + group[:, None] * stride_sg + n[None, :] * stride_sn, mask=inside, other=0.0)
        zeros = tl.load(zeros_ptr + group[:, None] * stride_zg + (n >> 3)[None, :] * stride_zn, mask=inside, other=0)
        zero = ((zeros >> ((n & 7) << 2)[None, :]) & 15) + 1
        partial = tl.zeros((WORDS, COLUMNS), dtype=tl.float32)
        for i in tl.static_range(8):
            x = tl.load(x_ptr + row * stride_xm + (w * 8 + i) * stride_xk, mask=w < K // 8, other=0.0)
            q = ((packed >> (4 * i)) & 15) - zero
            partial += x.to(tl.float32)[:, None] * q.to(tl.float32)
        total += tl.sum(partial * scale.to(tl.float32), axis=0)
    tl.store(y_ptr + row * stride_ym + n * stride_yn, total.to(tl.float16), mask=n < N)


GPTQ_MM_grid = lambda M, N, K, meta: (triton.cdiv(N, meta["COLUMNS"]), M)
