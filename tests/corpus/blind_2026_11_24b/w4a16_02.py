"""int4 x fp16. A word is opened into its eight nibbles on an axis of its own, which is then folded into K."""
import triton
import triton.language as tl

PACK = tl.constexpr(8)


@triton.jit
def sign4(v):
    return v - tl.where(v > 7, 16, 0)


@triton.jit
def open_pack(pk, KT: tl.constexpr, NT: tl.constexpr):
    # pk [KT / 8, NT]
    pos = tl.arange(0, PACK)
    place = (pos // 2) + (pos % 2) * 4
    digits = (pk[:, None, :] >> (place * 4)[None, :, None]) & 0xF
    return tl.reshape(sign4(digits), (KT, NT)).to(tl.float16)


@triton.autotune(
    configs=[
        triton.Config({"MT": 16, "NT": 32, "KT": 64}, num_warps=4, num_stages=2),
        triton.Config({"MT": 32, "NT": 32, "KT": 32}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wk, stride_wn,
    stride_ym, stride_yn,
    MT: tl.constexpr, NT: tl.constexpr, KT: tl.constexpr,
):
    tm = tl.program_id(1)
    tn = tl.program_id(0)
    im = tm * MT + tl.arange(0, MT)
    jn = tn * NT + tl.arange(0, NT)
    im_ok = (im < M)[:, None]
    jn_ok = (jn < N)[None, :]
    packs = K // PACK
    out = tl.zeros((MT, NT), dtype=tl.float32)
    for base in range(0, K, KT):
        kd = base + tl.arange(0, KT)
        kp = base // PACK + tl.arange(0, KT // PACK)
        pk = tl.load(qweight_ptr + kp[:, None] * stride_wk + jn[None, :] * stride_wn, mask=(kp < packs)[:, None] & jn_ok, other=0)
        xt = tl.load(x_ptr + im[:, None] * stride_xm + kd[None, :] * stride_xk, mask=im_ok & (kd < K)[None, :], other=0.0)
        out = tl.dot(xt, open_pack(pk, KT, NT), out)
    sc = tl.load(scales_ptr + jn, mask=jn < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + im[:, None] * stride_ym + jn[None, :] * stride_yn, (out * sc[None, :]).to(tl.float16), mask=im_ok & jn_ok)


def W4A16_MM_grid(M, N, K, meta):
    return (triton.cdiv(N, meta["NT"]), triton.cdiv(M, meta["MT"]))
