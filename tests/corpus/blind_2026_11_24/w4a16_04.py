import triton
import triton.language as tl

CFG = [
    triton.Config({"TOKENS": 16, "OUTS": 32, "DEEP": 32}, num_warps=2),
    triton.Config({"TOKENS": 32, "OUTS": 64, "DEEP": 64}, num_warps=4),
]


def W4A16_MM_grid(M, N, K, meta):
    return triton.cdiv(M, meta["TOKENS"]), triton.cdiv(N, meta["OUTS"])


@triton.jit
def sign4(v):
    return (v ^ 8) - 8


@triton.autotune(configs=CFG, key=["M", "N", "K"])
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    TOKENS: tl.constexpr, OUTS: tl.constexpr, DEEP: tl.constexpr,
):
    t = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    o = tl.program_id(1) * OUTS + tl.arange(0, OUTS)
    d = tl.arange(0, DEEP)
    w_in = tl.arange(0, DEEP // 8)
    px = x_ptr + t[:, None] * stride_xm + d[None, :] * stride_xk
    pw = qweight_ptr + w_in[:, None] * stride_wk + o[None, :] * stride_wn
    sh = 4 * tl.arange(0, 8)
    acc = tl.zeros((TOKENS, OUTS), tl.float32)
    turn = 0
    while turn * DEEP < K:
        left = K - turn * DEEP
        x = tl.load(px, mask=(t < M)[:, None] & (d < left)[None, :], other=0.0)
        words = tl.load(pw, mask=(w_in < left // 8)[:, None] & (o < N)[None, :], other=0)
        q = sign4((words[:, None, :] >> sh[None, :, None]) & 0xF)
        acc = tl.dot(x, tl.reshape(q, (DEEP, OUTS)).to(tl.float16), acc)
        px += DEEP * stride_xk
        if turn % 2 == 1:
            pw += DEEP // 8 * stride_wk
        turn += 1
    s = tl.load(scales_ptr + o, mask=o < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + t[:, None] * stride_ym + o[None, :] * stride_yn, (acc * s[None, :]).to(tl.float16), mask=(t < M)[:, None] & (o < N)[None, :])
