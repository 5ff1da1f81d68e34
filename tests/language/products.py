"""tl.dot, in every type, and products written by hand."""

from __future__ import annotations

from tests.language.cases import whole

ORDER = "the order of the sums is the compiler's and the tensor cores'"

DOT = """
i = tl.arange(0, 32)
at = i[:, None] * 32 + i[None, :]
x = tl.load(x_ptr + at)
y = tl.load(y_ptr + at)
"""
DOTS = {
    "fp16": ("fp16", "fp32", "tl.dot(x, y)", 8, 1e-3),
    "bf16": ("bf16", "fp32", "tl.dot(x, y)", 8, 1e-3),
    "i8": ("i8", "i32", "tl.dot(x, y)", 0, 0.0),
    "i8_typed": ("i8", "i32", "tl.dot(x, y, out_dtype=tl.int32)", 0, 0.0),
    "acc": ("fp16", "fp32", "tl.dot(x, tl.trans(y), acc=tl.full((32, 32), 2.5, tl.float32))", 8, 1e-3),
    "i8_acc": ("i8", "i32", "tl.dot(x, tl.trans(y), at, out_dtype=tl.int32)", 0, 0.0),
    "fp16_out": ("fp16", "fp16", "tl.dot(x, y, out_dtype=tl.float16)", 4, 0.15),
    "fp32_tf32": ("fp32", "fp32", "tl.dot(x, y)", 8, 2e-3),
    "fp32_ieee": ("fp32", "fp32", 'tl.dot(x, y, input_precision="ieee")', 8, 1e-4),
    "fp32_tf32x3": ("fp32", "fp32", 'tl.dot(x, y, input_precision="tf32x3")', 8, 1e-3),
    "fp32_bf16x3": ("fp32", "fp32", 'tl.dot(x, y, input_precision="bf16x3")', 8, 1e-3),
    "fp32_bf16x6": ("fp32", "fp32", 'tl.dot(x, y, input_precision="bf16x6")', 8, 1e-3),
    "no_tf32": ("fp32", "fp32", "tl.dot(x, y, allow_tf32=False)", 8, 1e-4),
    "transposed_i8": ("i8", "i32", "tl.dot(tl.trans(x), tl.trans(y), out_dtype=tl.int32) + tl.dot(x, y)", 0, 0.0),
    "imprecise": ("fp16", "fp32", "tl.dot(x, y, max_num_imprecise_acc=0)", 8, 1e-3),
    "cast": ("fp16", "fp16", "tl.dot(x, y).to(tl.float16)", 1, 0.03),
    "fp8e5": ("fp8e5", "fp32", "tl.dot(x, y)", 64, 64.0),
}
for name, (kind, out, expression, ulp, near) in DOTS.items():
    spec = "fp16[32,32]" if kind == "fp8e5" else f"{kind}[32,32]"
    convert = "x = x.to(tl.float8e5)\ny = y.to(tl.float8e5)\n" if kind == "fp8e5" else ""
    whole(
        f"dot_{name}",
        "tl.dot",
        DOT + convert + f"tl.store(out + at, {expression})",
        x_ptr=spec,
        y_ptr=spec,
        out=f"{out}[32,32]",
        ulp=ulp,
        near=near,
        capability=90 if kind == "fp8e5" else 80,
        why=ORDER,
    )
whole(
    "dot_batch",
    "tl.dot",
    """
i = tl.arange(0, 16)
at = tl.arange(0, 2)[:, None, None] * 256 + i[None, :, None] * 16 + i[None, None, :]
tl.store(out + at, tl.dot(tl.load(x_ptr + at), tl.load(x_ptr + 512 + at)))
""",
    x_ptr="fp16[4,16,16]",
    out="fp32[2,16,16]",
    ulp=8,
    near=1e-3,
    why=ORDER,
)
whole(
    "dot_scaled",
    "tl.dot_scaled",
    """
i = tl.arange(0, 128)
k = tl.arange(0, 64)
s = tl.arange(0, 2)
x = tl.load(x_ptr + i[:, None] * 64 + k[None, :])
y = tl.load(x_ptr + k[:, None] * 128 + i[None, :])
a = tl.load(s_ptr + i[:, None] * 2 + s[None, :])
tl.store(out + i[:, None] * 128 + i[None, :], tl.dot_scaled(x, a, "e5m2", y, a, "e5m2"))
""",
    x_ptr="u8[128,64]<60",
    s_ptr="u8[128,2]<127",
    out="fp32[128,128]",
    capability=90,
    refused="tl.dot_scaled runs on a GPU only",
)
whole(
    "w8a8_loop",
    "tl.dot tl.range",
    """
i = tl.arange(0, 16)
j = tl.arange(0, 32)
total = tl.zeros((16, 16), tl.int32)
for k in range(0, 64, 32):
    x = tl.load(x_ptr + i[:, None] * 64 + k + j[None, :]).to(tl.float32) / tl.load(s_ptr + i)[:, None]
    q = tl.clamp(tl.floor(x + 0.5), -128, 127).to(tl.int8)
    w = tl.load(w_ptr + i[None, :] * 64 + k + j[:, None])
    total = tl.dot(q, w, total, out_dtype=tl.int32)
tl.store(out + i[:, None] * 16 + i[None, :], total)
""",
    x_ptr="fp16[16,64]",
    s_ptr="fp32[16]",
    w_ptr="i8[16,64]",
    out="i32[16,16]",
    near=260.0,
    why="a quotient at a tie may round the other way: the GPU's division is right to two units in the last place",
)
whole(
    "three_dimensions",
    "tensor.__getitem__ tl.sum",
    """
i = tl.arange(0, 4)
j = tl.arange(0, 8)
at = i[:, None, None] * 64 + j[None, :, None] * 8 + j[None, None, :]
x = tl.load(x_ptr + at, mask=(j[None, :, None] < 7) & (i < 3)[:, None, None], other=1)
tl.store(out + i[:, None] * 8 + j[None, :], tl.sum(x, axis=2) + tl.max(x, axis=1))
""",
    x_ptr="i32[4,8,8]<100",
    out="i32[32]",
)
whole(
    "dot_by_sum",
    "tl.sum tensor.__mul__",
    DOT
    + """
tl.store(out + i, tl.sum(x.to(tl.int32) * tl.trans(y).to(tl.int32), axis=1))
tl.store(out_f + i, tl.sum(x.to(tl.float32) * 0.5, axis=0))
""",
    x_ptr="i8[32,32]",
    y_ptr="i8[32,32]",
    out="i32[32]",
    out_f="fp32[32]",
)
