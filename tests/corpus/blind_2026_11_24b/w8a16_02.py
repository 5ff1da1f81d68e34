import triton
import triton.language as tl


def even(args):
    return args["K"] % (args["BLOCK_K"] * args["SPLIT_K"]) == 0


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SPLIT_K": 2}), triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "SPLIT_K": 4})],
    key=["M", "N", "K"], reset_to_zero=["y_ptr"],
)
@triton.heuristics({"EVEN_K": even})
@triton.jit
def W8A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K, stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, EVEN_K: tl.constexpr,
):
    pid = tl.program_id(0)
    pid_k = tl.program_id(1)
    tn = tl.cdiv(N, BLOCK_N)
    om = pid // tn * BLOCK_M + tl.arange(0, BLOCK_M)
    on = pid % tn * BLOCK_N + tl.arange(0, BLOCK_N)
    am = om % M
    an = on % N
    ok = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a = x_ptr + am[:, None] * stride_xm + ok[None, :] * stride_xk
    b = qweight_ptr + ok[:, None] * stride_wk + an[None, :] * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        if EVEN_K:
            xa = tl.load(a)
            wb = tl.load(b)
        else:
            rest = K - k * BLOCK_K * SPLIT_K
            xa = tl.load(a, mask=ok[None, :] < rest, other=0.0)
            wb = tl.load(b, mask=ok[:, None] < rest, other=0)
        acc = tl.dot(xa, wb.to(xa.dtype), acc)
        a += BLOCK_K * stride_xk
        b += BLOCK_K * SPLIT_K * stride_wk
    # one program of the slices takes care of the scale
    if pid_k == 0:
        acc *= tl.load(scales_ptr + an).to(tl.float32)[None, :]
    c = y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn
    tl.atomic_add(c, acc.to(tl.float16), mask=(om < M)[:, None] & (on < N)[None, :])
