"""GPTQ on a two-dimensional grid, one group after the other; the sum of a group is scaled."""
import triton
import triton.language as tl


def GPTQ_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["TN"]), triton.cdiv(M, meta["TM"]))


@triton.jit
def nibbles(word, place):
    return (word >> (place % 8 * 4)) & 0xF


@triton.autotune(
    configs=[
        triton.Config({"TM": 16, "TN": 32, "TK": 64}, num_warps=2),
        triton.Config({"TM": 16, "TN": 64, "TK": 64}, num_warps=4),
    ],
    key=["M", "N", "K", "group_size"],
)
@triton.jit
def GPTQ_MM(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, y_ptr,
    M, N, K, group_size,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_sg, stride_sn,
    stride_zg, stride_zn,
    stride_ym, stride_yn,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):
    m = tl.program_id(1) * TM + tl.arange(0, TM)
    n = tl.program_id(0) * TN + tl.arange(0, TN)
    x_rows = x_ptr + m[:, None] * stride_xm
    w_cols = qweight_ptr + n[None, :] * stride_wn
    total = tl.zeros((TM, TN), dtype=tl.float32)
    group_start = 0
    while group_start < K:
        g = group_start // group_size
        group_end = group_start + group_size
        z_word = tl.load(zeros_ptr + g * stride_zg + (n // 8) * stride_zn, mask=n < N, other=0)
        z = nibbles(z_word, n) + 1
        s = tl.load(scales_ptr + g * stride_sg + n * stride_sn, mask=n < N, other=0.0)
        part = tl.zeros((TM, TN), dtype=tl.float32)
        for k0 in range(group_start, group_end, TK):
            k = k0 + tl.arange(0, TK)
            k_in = k < K
            x = tl.load(x_rows + k[None, :] * stride_xk, mask=(m < M)[:, None] & k_in[None, :], other=0.0)
            word = tl.load(w_cols + (k // 8)[:, None] * stride_wk, mask=k_in[:, None] & (n < N)[None, :], other=0)
            q = nibbles(word, k[:, None]) - z[None, :]
            part += tl.dot(x, q.to(tl.float16))
        total += part * s.to(tl.float32)[None, :]
        group_start = group_end
    tl.store(y_ptr + m[:, None] * stride_ym + n[None, :] * stride_yn, total.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])
