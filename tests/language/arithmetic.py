"""Arithmetic, comparison, bits, conversions: every element by itself."""

from __future__ import annotations

from tests.language.cases import elementwise, whole

FLOATS = ("fp16", "bf16", "fp32")
FAST = "a GPU approximates it, and Triton takes the fast form"
SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")

for kind in FLOATS:
    for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
        elementwise(
            f"{name}_{kind}", f"tl.{name} tensor.__{name}__ tensor.__r{name}__", f"x {sign} y", kind + "e", kind
        )
    elementwise(f"truediv_{kind}", "tensor.__truediv__", "x / y", kind, kind, ulp=2, why=FAST)
    elementwise(f"rtruediv_{kind}", "tensor.__rtruediv__", "1.0 / x", kind, ulp=2, why=FAST)
    elementwise(f"neg_{kind}", "tensor.__neg__", "-x", kind + "e")
    elementwise(f"abs_{kind}", "tl.abs tensor.abs", "tl.abs(x)", kind + "e")
    elementwise(f"maximum_{kind}", "tl.maximum", "tl.maximum(x, y)", kind + "e", kind)
    elementwise(f"minimum_{kind}", "tl.minimum", "tl.minimum(x, y)", kind + "e", kind)
    elementwise(
        f"maximum_nan_{kind}",
        "tl.maximum tl.PropagateNan",
        "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)",
        kind + "e",
        kind,
    )
    elementwise(f"clamp_{kind}", "tl.clamp", "tl.clamp(x, -1.0, 2.0)", kind + "e")
    elementwise(
        f"clamp_nan_{kind}", "tl.clamp", "tl.clamp(x, -1.0, 2.0, propagate_nan=tl.PropagateNan.ALL)", kind + "e"
    )
    elementwise(f"fma_{kind}", "tl.fma", "tl.fma(x, y, z)", kind, kind, kind)
    for name, sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
        elementwise(
            f"{name}_{kind}", f"tensor.__{name}__", f"(x {sign} y).to(tl.int8)", kind + "e", kind + "e", out="i8"
        )
    elementwise(f"where_{kind}", "tl.where", "tl.where(x > 0, x, y)", kind + "e", kind)
    elementwise(
        f"constant_{kind}",
        "tensor.__add__",
        "x * 0.1 + 1",
        kind,
        ulp=1,
        near=4e-3 if kind == "bf16" else 1e-3 if kind == "fp16" else 1e-7,
        why="x * c + 1 may become one fma",
    )
    for target in (*SIGNED, "u8", "u16", "u32", "u64"):
        if (kind, target[1:]) != ("fp32", "64"):
            elementwise(
                f"{kind}_to_{target}",
                "tensor.to tl.cast tensor.cast",
                f"x.to(tl.{target.replace('i', 'int').replace('u', 'uint')})",
                kind + "e",
                out=target,
            )
    elementwise(f"{kind}_to_bool", "tensor.to", "x.to(tl.int1).to(tl.int8)", kind + "e", out="i8")
    for target, other in (("fp16", "float16"), ("bf16", "bfloat16"), ("fp32", "float32"), ("fp64", "float64")):
        if target != kind:
            elementwise(f"{kind}_to_{target}", f"tensor.to tl.{other}", f"x.to(tl.{other})", kind + "e", out=target)
    elementwise(f"{kind}_plus_fp32", "tensor.__add__", "x + y", kind, "fp32", out="fp32")
    elementwise(f"{kind}_times_int", "tensor.__mul__", "x * y", kind, "i32<100")
    elementwise(f"{kind}_mod", "tensor.__mod__", "x % y", kind, kind)
for target in ("i8", "i16", "i32", "u8", "u32"):
    elementwise(
        f"fp32_inside_to_{target}",
        "tensor.to",
        f"x.to(tl.{target.replace('i', 'int').replace('u', 'uint')})",
        "fp32<100",
        out=target,
    )
elementwise("fp32_to_i64", "tensor.to", "x.to(tl.int64)", "fp32e", out="i64")
elementwise("fp32_to_u64", "tensor.to", "tl.abs(x).to(tl.uint64)", "fp32e", out="u64")
for kind in SIGNED + UNSIGNED:
    for target in FLOATS:
        name = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}[target]
        elementwise(f"{kind}_to_{target}", "tensor.to", f"x.to(tl.{name})", kind + "e", out=target)
    for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("and", "&"), ("or", "|"), ("xor", "^")):
        elementwise(f"{name}_{kind}", f"tensor.__{name}__ tensor.__r{name}__", f"x {sign} y", kind + "e", kind)
    elementwise(
        f"floordiv_{kind}", "tensor.__floordiv__ tensor.__rfloordiv__", "x // tl.where(y == 0, 1, y)", kind, kind
    )
    elementwise(f"mod_{kind}", "tensor.__mod__ tensor.__rmod__", "x % tl.where(y == 0, 1, y)", kind, kind)
    elementwise(f"floordiv_small_{kind}", "tensor.__floordiv__", "x // 7", kind)
    elementwise(f"mod_small_{kind}", "tensor.__mod__", "x % 7", kind)
    elementwise(f"intdiv_{kind}", "tensor.__truediv__", "x / 3", kind, out="fp32", ulp=2, why=FAST)
    elementwise(f"shl_{kind}", "tensor.__lshift__ tensor.__rlshift__", "x << y", kind, f"{kind}<8")
    elementwise(f"shr_{kind}", "tensor.__rshift__ tensor.__rrshift__", "x >> y", kind + "e", f"{kind}<8")
    elementwise(f"invert_{kind}", "tensor.__invert__", "~x", kind)
    elementwise(
        f"compare_{kind}",
        "tensor.__lt__ tensor.__ge__",
        "((x < y).to(tl.int32) * 2 + (x >= 3)).to(tl.int8)",
        kind,
        kind,
        out="i8",
    )
    elementwise(f"max_{kind}", "tl.maximum tl.minimum", "tl.maximum(x, y) - tl.minimum(x, y)", kind, kind)
    elementwise(f"abs_{kind}", "tl.abs", "tl.abs(x)", kind + "e")
for kind in SIGNED:
    elementwise(f"neg_{kind}", "tensor.__neg__", "-x", kind + "e")
for kind, other in (("i32", "u32"), ("i8", "i32"), ("u8", "i8"), ("i64", "i32"), ("u16", "i32"), ("i32", "i8")):
    elementwise(f"promote_{kind}_{other}", "tensor.__add__", "((x + y) >> 1).to(tl.int64)", kind, other, out="i64")
    elementwise(
        f"cast_{kind}_{other}",
        "tensor.to",
        f"x.to(tl.{other.replace('i', 'int').replace('u', 'uint')})",
        kind,
        out=other,
    )
elementwise(
    "shift_beyond",
    "tensor.__lshift__",
    "(x << y) + (x >> y)",
    "i32",
    "i32<64",
    differs="to a shift by the width or more an instruction has an answer, zero or the sign, and the compiler that sees it none",
)
elementwise("div_negative", "tensor.__floordiv__ tensor.__mod__", "(x // -3) * 10 + x % -3", "i32=")
elementwise("div_of_negative", "tensor.__floordiv__ tensor.__mod__", "((x - 32) // 5) * 10 + (x - 32) % 5", "i32=")
elementwise("literal_types", "tensor.__add__", "x + 1000000 * 3", "i64")
elementwise("literal_wraps", "tensor.__mul__", "x * 65537", "i32")
elementwise(
    "bool_arithmetic",
    "tl.int1",
    "((x > 0) & (y > 0) | ~(x < y)).to(tl.int8) + ((x > 0) ^ (y > 0))",
    "i32",
    "i32",
    out="i32",
)
elementwise(
    "bool_and_or",
    "tensor.logical_and tensor.logical_or",
    "((x > 0) and (y > 0) or not (x < y)).to(tl.int8)",
    "i32",
    "i32",
    out="i8",
)
elementwise("bool_sum", "tl.int1", "(x > 0).to(tl.int1) + (y > 0).to(tl.int1)", "i32", "i32", out="i1")
elementwise("not_tensor", "tensor.__not__", "(not (x > 0)).to(tl.int8)", "i32<2", out="i8")
elementwise(
    "pointer_arithmetic",
    "tl.pointer_type tensor.__radd__",
    "tl.load(i + x_ptr) + tl.load(x_ptr + i.to(tl.int64))",
    "fp32",
)
elementwise(
    "unsigned_offset", "tensor.__add__", "tl.load(x_ptr + i.to(tl.uint32)) + tl.load(x_ptr + i.to(tl.uint8))", "fp32"
)
elementwise("bitcast", "tensor.to tl.cast", "(x.to(tl.int32, bitcast=True) >> 3)", "fp32", out="i32")
elementwise("bitcast_bf16", "tensor.to", "tl.cast(x, tl.uint16, bitcast=True) + 1", "bf16", out="u16")
elementwise("bitcast_i16", "tensor.to", "x.to(tl.bfloat16, bitcast=True)", "i16", out="bf16")
elementwise("round_toward_zero", "tensor.to", 'x.to(tl.float16, fp_downcast_rounding="rtz")', "fp32e", out="fp16")
elementwise("round_bf16_toward_zero", "tensor.to", 'x.to(tl.bfloat16, fp_downcast_rounding="rtz")', "fp32e", out="bf16")
elementwise(
    "double",
    "tl.float64",
    "x.to(tl.float64) / 3.0 + y",
    "fp32",
    "fp64",
    out="fp64",
    ulp=1,
    why="x / 3 + y may become one fma",
)
elementwise("mulhi_u32", "tl.umulhi", "tl.umulhi(x, y)", "u32", "u32")
elementwise("mulhi_i32", "tl.umulhi", "tl.umulhi(x, y)", "i32", "i32")
elementwise("mulhi_u64", "tl.umulhi", "tl.umulhi(x, y)", "u64", "u64")
elementwise("cdiv_tensor", "tl.cdiv tensor.cdiv", "tl.cdiv(x, 7) + x.cdiv(3)", "i32<1000")
elementwise("div_rn", "tl.div_rn", "tl.div_rn(x, y)", "fp32", "fp32")
elementwise("fdiv", "tl.fdiv", "tl.fdiv(x, y)", "fp32", "fp32", ulp=2, why=FAST)
elementwise("fdiv_ieee", "tl.fdiv", "tl.fdiv(x, y, ieee_rounding=True)", "fp32", "fp32", ulp=2, why=FAST)
for name in ("floor", "ceil"):
    elementwise(name, f"tl.{name} tensor.{name}", f"tl.{name}(x) + x.{name}()", "fp32")
for name in ("exp", "exp2", "sin", "cos", "erf", "sigmoid"):
    elementwise(name, f"tl.{name} tensor.{name}", f"tl.{name}(x) + x.{name}()", "fp32", ulp=8, near=4e-6, why=FAST)
for name in ("log", "log2", "sqrt", "rsqrt", "sqrt_rn"):
    elementwise(
        name,
        f"tl.{name} tensor.{name} tl.math",
        f"tl.{name}(tl.abs(x)) + tl.math.{name}(tl.abs(x))",
        "fp32",
        ulp=4,
        near=1e-6,
        why=FAST,
    )
elementwise("exp_fp16", "tl.exp", "tl.exp(x.to(tl.float32)).to(tl.float16)", "fp16", ulp=1, why=FAST)
elementwise("floor_edges", "tl.floor", "tl.floor(x)", "fp32e")
elementwise("round_half", "tl.floor", "tl.floor(x + 0.5)", "fp32e")
elementwise("magic_round", "tensor.__add__", "((x + 12582912.0) - 12582912.0).to(tl.int8)", "fp32", out="i8")
for name in (
    "rint",
    "nearbyint",
    "round",
    "trunc",
    "floor",
    "ceil",
    "abs",
    "llrint",
    "float2int_rn",
    "float2int_rz",
    "float2int_rd",
    "float2int_ru",
    "saturatef",
    "llround",
):
    if name == "nearbyint" or name == "abs":
        continue
    out = "i64" if name.startswith("ll") else "i32" if name.startswith("float2int") else "fp32"
    elementwise(
        f"libdevice_{name}", f"libdevice.{name}", f"libdevice.{name}(x)", "fp32e" if out == "fp32" else "fp32", out=out
    )
for name in (
    "sqrt",
    "exp",
    "exp2",
    "log2",
    "tanh",
    "rsqrt",
    "rcp_rn",
    "expm1",
    "log1p",
    "cbrt",
    "sin",
    "cos",
    "log10",
    "tan",
    "log",
    "sqrt_rn",
):
    elementwise(
        f"libdevice_{name}", f"libdevice.{name}", f"libdevice.{name}(tl.abs(x))", "fp32", ulp=4, near=1e-6, why=FAST
    )
for name in ("pow", "copysign", "div_rn", "mul_rn", "add_rn", "sub_rn", "fast_dividef", "hypot", "fmod"):
    elementwise(
        f"libdevice_{name}",
        f"libdevice.{name}",
        f"libdevice.{name}(tl.abs(x), y)",
        "fp32",
        "fp32",
        ulp=4,
        near=1e-6,
        why=FAST,
    )
for name in ("fast_expf", "fast_logf"):
    elementwise(
        f"libdevice_{name}", f"libdevice.{name}", f"libdevice.{name}(tl.abs(x))", "fp32", ulp=64, near=1e-4, why=FAST
    )
elementwise("libdevice_fma", "libdevice.fma", "libdevice.fma(x, y, z)", "fp32", "fp32", "fp32")
elementwise("libdevice_fma_rn", "libdevice.fma_rn", "libdevice.fma_rn(x, y, z)", "fp32", "fp32", "fp32")
elementwise("libdevice_int2float_rn", "libdevice.int2float_rn", "libdevice.int2float_rn(x)", "i32", out="fp32")
elementwise(
    "libdevice_unknown",
    "libdevice.erfinv",
    "libdevice.erfinv(x)",
    "fp32",
    refused="`erfinv` of libdevice runs on a GPU only",
)
elementwise(
    "inline_asm",
    "tl.inline_asm_elementwise",
    'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)',
    "i32",
    refused="inline assembly runs on a GPU only",
)
for name, kind in (("fp8e5", "float8e5"), ("fp8e4nv", "float8e4nv")):
    elementwise(f"{name}_to_fp16", f"tl.{kind}", "x.to(tl.float16)", name, out="fp16", capability=90)
    elementwise(f"{name}_to_fp32", f"tl.{kind}", "x.to(tl.float32)", name, out="fp32", capability=90)
    elementwise(f"fp32_to_{name}", f"tl.{kind}", f"x.to(tl.{kind})", "fp32e", out=name, capability=90)
    elementwise(f"fp16_to_{name}", f"tl.{kind}", f"x.to(tl.{kind})", "fp16e", out=name, capability=90)
    elementwise(f"bf16_to_{name}", f"tl.{kind}", f"x.to(tl.{kind})", "bf16e", out=name, capability=90)
whole(
    "fp16_chain",
    "tensor.__add__",
    """
i = tl.arange(0, 64)
x = tl.load(x_ptr + i)
y = tl.load(y_ptr + i)
tl.store(out + i, (x + y) + (x - y) + x.to(tl.float32).to(tl.float16))
""",
    x_ptr="fp16[64]",
    y_ptr="fp16[64]",
    out="fp16[64]",
)
