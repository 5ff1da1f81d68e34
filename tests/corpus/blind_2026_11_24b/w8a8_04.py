import math

import triton
import triton.language as tl

LOW, HIGH = tl.constexpr(-(2 ** 7)), tl.constexpr(2 ** 7 - 1)


def configs():
    out = []
    for e in range(4, 7):
        out.append(triton.Config({"BLOCK_M": 2 ** e, "BLOCK_N": 32, "BLOCK_K": 32, "SPLIT_K": int(math.sqrt(e))}, num_warps=4))
    return out


@triton.autotune(configs=configs(), key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.heuristics({"EVEN_K": lambda a: a["K"] % (a["BLOCK_K"] * a["SPLIT_K"]) == 0})
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, EVEN_K: tl.constexpr,
):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    pid_z = tl.program_id(2)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    A = x_ptr + (rm[:, None] * stride_xm + rk[None, :] * stride_xk)
    B = qweight_ptr + (rk[:, None] * stride_wk + rn[None, :] * stride_wn)
    row_ok, col_ok = rm[:, None] < M, rn[None, :] < N
    s = tl.load(input_scale_ptr + rm, mask=rm < M, other=1.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        if EVEN_K:
            a = tl.load(A, mask=row_ok, other=0.0)
            b = tl.load(B, mask=col_ok, other=0)
        else:
            rem = K - k * (BLOCK_K * SPLIT_K)
            a = tl.load(A, mask=row_ok & (rk[None, :] < rem), other=0.0)
            b = tl.load(B, mask=col_ok & (rk[:, None] < rem), other=0)
        v = a.to(tl.float32) / s[:, None]
        r = tl.floor(v + 0.5)
        q = tl.where(r < LOW, LOW, tl.where(r > HIGH, HIGH, r)).to(tl.int8)
        acc += tl.dot(q, b)
        A += BLOCK_K * SPLIT_K * stride_xk
        B += BLOCK_K * stride_wk
    ws = tl.load(weight_scale_ptr + rn, mask=rn < N, other=0.0)
    y = acc * s[:, None] * ws[None, :]
    C = y_ptr + rm[:, None] * stride_ym + rn[None, :] * stride_yn
    if SPLIT_K > 1:
        tl.atomic_add(C, y.to(tl.float16), mask=row_ok & col_ok)
    else:
        tl.store(C, y.to(tl.float16), mask=row_ok & col_ok)


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(M, meta["BLOCK_M"]), meta["SPLIT_K"])
