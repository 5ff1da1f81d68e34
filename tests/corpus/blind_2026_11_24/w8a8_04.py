import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": 16, "BN": 64, "BK": 64, "SPLIT_K": 4}, num_warps=4),
    triton.Config({"BM": 32, "BN": 32, "BK": 32, "SPLIT_K": 1}, num_warps=4),
]


@triton.jit
def to_int8(x, scale):
    v = x.to(tl.float32) / scale
    v = tl.floor(v + 0.5)
    v = tl.where(v > 127.0, 127.0, v)
    v = tl.where(v < -128.0, -128.0, v)
    return v.to(tl.int8)


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], reset_to_zero=["y_ptr"])
@triton.jit
def W8A8_MM(
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT_K: tl.constexpr,
):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    pid_k = tl.program_id(2)
    om = pid_m * BM + tl.arange(0, BM)
    on = pid_n * BN + tl.arange(0, BN)
    scale_m = tl.load(input_scale_ptr + om, mask=om < M, other=1.0)
    scale_n = tl.load(weight_scale_ptr + on, mask=on < N, other=0.0)
    steps = tl.cdiv(tl.cdiv(K, BK), SPLIT_K)
    lo = pid_k * steps
    hi = min(lo + steps * BK, K)
    acc = tl.zeros((BM, BN), tl.int32)
    for start in range(lo, hi, BK):
        ok = start + tl.arange(0, BK)
        a = tl.load(x_ptr + om[:, None] * stride_xm + ok[None, :] * stride_xk,
                    mask=(om[:, None] < M) & (ok[None, :] < K), other=0.0)
        b = tl.load(qweight_ptr + ok[:, None] * stride_wk + on[None, :] * stride_wn,
                    mask=(ok[:, None] < K) & (on[None, :] < N), other=0)
        aq = to_int8(a, scale_m[:, None])
        acc = tl.dot(aq, b, acc, out_dtype=tl.int32)
    y = (acc * scale_m[:, None] * scale_n[None, :]).to(tl.float16)
    out = y_ptr + om[:, None] * stride_ym + on[None, :] * stride_yn
    keep = (om[:, None] < M) & (on[None, :] < N)
    if SPLIT_K == 1:
        tl.store(out, y, mask=keep)
    else:
        tl.atomic_add(out, y, mask=keep)


def W8A8_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["BN"]), triton.cdiv(M, meta["BM"]), meta["SPLIT_K"])
