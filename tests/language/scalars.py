"""Numbers of every type, constants, random numbers, hints."""

from __future__ import annotations

from tests.language.cases import whole

I64 = {"out": "i64[8]"}

whole(
    "scalars",
    "tensor.__floordiv__",
    """
a = n // 3
b = (n - 50) // 3
c = (n - 50) % 7
d = n / 4
e = (n * 1.5).to(tl.int32)
f = tl.cdiv(n, 4)
tl.store(out, a)
tl.store(out + 1, b)
tl.store(out + 2, c)
tl.store(out + 3, (d * 100).to(tl.int32))
tl.store(out + 4, e)
tl.store(out + 5, f)
tl.store(out + 6, n.to(tl.int64) * n * n * n * n * n)
tl.store(out + 7, big + n)
""",
    n=37,
    big=3000000000,
    **I64,
)
whole(
    "swizzle",
    "tl.swizzle2d tl.cdiv",
    """
pid = tl.program_id(0)
a, b = tl.swizzle2d(pid // 4, pid % 4, 4, 4, 2)
tl.store(out + pid, a * 10 + b)
""",
    grid=(16,),
    out="i32[16]",
)
whole(
    "hints",
    "tl.assume tl.multiple_of tl.max_contiguous tl.max_constancy tl.debug_barrier",
    """
tl.assume(n > 0)
n = tl.multiple_of(n, 4)
i = tl.max_contiguous(tl.multiple_of(tl.arange(0, 8), 8), 8)
c = tl.max_constancy(i // 8, 8)
tl.debug_barrier()
tl.store(out + i, i + n + c)
""",
    n=16,
    **I64,
)
whole(
    "one_by_another_name",
    "tl.constexpr",
    """
ONE: tl.constexpr = True
i = tl.arange(0, ONE) + tl.zeros((8, ONE), tl.int32)
i += tl.reshape(tl.arange(0, 8), (8, ONE)) + tl.permute(tl.zeros((ONE, 8), tl.int32), (ONE, 0))
i += tl.broadcast_to(tl.zeros((1, 1), tl.int32), (8, ONE))
tl.store(out + tl.arange(0, 8)[:, None], i + tl.full((8, ONE), 5, tl.int32))
""",
    **I64,
)
whole(
    "shapes_and_types",
    "tensor.shape tensor.dtype tensor.type tensor.numel tl.block_type tl.dtype tl.void",
    """
x = tl.load(x_ptr + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :])
y = tl.zeros((x.shape[1],), x_ptr.dtype.element_ty)
total = x.shape[0] * 100 + x.shape[1]
tl.store(out, total)
tl.store(out + 1, x.dtype.primitive_bitwidth)
tl.store(out + 2, x.dtype.is_floating())
tl.store(out + 3, y.dtype == tl.float16)
tl.store(out + 4, x.numel)
""",
    x_ptr="fp16[4,8]",
    **I64,
)
whole(
    "is_none",
    "tensor.__eq__",
    """
i = tl.arange(0, 8)
x = i
if OPTION is None:
    x += 1
if OPTION is not None:
    x += 10
tl.store(out + i, x)
""",
    constants={"OPTION": None},
    **I64,
)
whole(
    "random",
    "tl.rand tl.randint tl.randn tl.rand4x tl.randint4x tl.philox tl.philox_impl tl.uint_to_uniform_float",
    """
i = tl.arange(0, 64)
a, b, c, d = tl.randint4x(seed, i)
tl.store(out + i, a)
tl.store(out + 64 + i, d)
tl.store(out + 128 + i, tl.randint(seed, i))
tl.store(out_uniform + i, tl.rand(seed, i))
w, x, y, z = tl.rand4x(seed, i)
tl.store(out_uniform + 64 + i, z)
""",
    seed=42,
    out="i32[192]",
    out_uniform="fp32[128]",
)
whole(
    "random_normal",
    "tl.randn tl.randn4x tl.pair_uniform_to_normal",
    """
i = tl.arange(0, 64)
w, x, y, z = tl.randn4x(seed, i)
tl.store(out + i, tl.randn(seed, i) + z)
""",
    seed=42,
    out="fp32[64]",
    ulp=16,
    near=1e-5,
    why="logarithm, root, sine and cosine are approximations on a GPU",
)
whole(
    "unsigned_widths",
    "tl.uint8 tl.uint16 tl.uint32 tl.uint64 tl.int8 tl.int16 tl.int32 tl.int64",
    """
x = tl.full((), 200, tl.uint8)
y = tl.full((), 100, tl.int8)
tl.store(out, x + x)
tl.store(out + 1, y + y)
tl.store(out + 2, x.to(tl.int8))
tl.store(out + 3, (y * 3).to(tl.uint16))
tl.store(out + 4, (tl.full((), -1, tl.int32)).to(tl.uint32).to(tl.int64))
tl.store(out + 5, tl.full((), -1, tl.int16).to(tl.uint64) >> 60)
tl.store(out + 6, 3 < tl.load(out + 7))
""",
    **I64,
)
whole(
    "target",
    "tl.target_info",
    """
tl.store(out, 1 if tl.target_info.is_cuda() else 2)
""",
    **I64,
)
whole(
    "carried_types",
    "tl.tensor",
    """
n = tl.load(n_ptr)
low = tl.zeros((), tl.int8) + 100
first, second = 0, 1
best = 0.0
found = n < 0
for b in range(n, n + 12):
    first, second = second, first + second
    low += 3
    best = tl.maximum(best, (b * 7 % 5).to(tl.float32))
    found = found | (b == n + 2)
    if b % 2 == 0:
        low += 1
    else:
        low -= 2
tl.store(out, first)
tl.store(out + 1, low)
tl.store(out + 2, best.to(tl.int32))
tl.store(out + 3, found)
""",
    n_ptr="i32[1]<50",
    **I64,
)
whole(
    "bf16_accumulate",
    "tl.bfloat16",
    """
i = tl.arange(0, 16)
total = tl.zeros((16,), dtype=tl.bfloat16)
for b in range(0, 6):
    total += tl.load(x_ptr + b * 16 + i)
total = total * 0.5 + tl.full((16,), 1.1, tl.bfloat16)
tl.store(out + i, total)
tl.store(out + 16 + i, tl.where(total > 0, total, -total).to(tl.float32).to(tl.bfloat16))
tl.store(out + 32 + i, tl.maximum(total, 0.0))
""",
    x_ptr="bf16[96]",
    out="bf16[48]",
    ulp=1,
    why="x * c + d may become one fma",
)
whole(
    "to_tensor",
    "tl.to_tensor",
    """
tl.store(out, (tl.to_tensor(5) + tl.to_tensor(2.5)).to(tl.int64))
""",
    since="3.7",
    **I64,
)
whole(
    "wide_bounds",
    "tl.range tl.int64",
    """
n = tl.load(n_ptr)
total = tl.zeros((), tl.int64)
for b in range(n, n + 3):
    total += b * 4000000000
for b in range(0, n.to(tl.int32) % 3 + 2):
    total -= b.to(tl.int64) << 33
tl.store(out, total)
tl.store(out + 1, total >> 40)
""",
    n_ptr="i64[1]<50",
    **I64,
)
whole(
    "nested_loops",
    "tl.range tl.static_range",
    """
rows = tl.zeros((4,), tl.int32)
count = 0
step = 1
while count < 3:
    for j in tl.range(0, 6, 2):
        for k in tl.static_range(2):
            if j > count:
                rows += j * 10 + k
            else:
                rows = tl.where(rows > 20, rows - 1, rows + step)
        step = step * 3 % 7
    count += 1
tl.store(out + tl.arange(0, 4), rows)
tl.store(out + 4, step)
""",
    **I64,
)
whole(
    "infinities",
    "tl.where tl.max",
    """
i = tl.arange(0, 8)
best = tl.full((8,), float("-inf"), tl.float32)
x = tl.load(x_ptr + i)
best = tl.maximum(best, tl.where(i < 5, x, float("-inf")))
tl.store(out + i, best)
tl.store(out + 8, tl.max(best))
tl.store(out + 9, tl.sum(tl.where(x == x, x * 65504.0, float("nan"))))
""",
    x_ptr="fp32[8]",
    out="fp32[16]",
    ulp=4,
    why="the order of the sum is the compiler's",
)
whole(
    "bool_reductions",
    "tl.sum tl.max tl.reduce_or",
    """
x = tl.load(x_ptr + tl.arange(0, 64))
tl.store(out, tl.sum((x > 0).to(tl.int32)))
tl.store(out + 1, tl.sum(x > 0))
tl.store(out + 2, tl.max((x > 3).to(tl.int32)))
tl.store(out + 3, tl.sum((x > 0) & (x < 5)))
tl.store(out + 4, tl.reduce_or(x > 0, 0))
tl.store(out + 5, True)
tl.store(out + 6, 1 - (tl.min(x) > 0).to(tl.int32))
""",
    x_ptr="i32[64]<10",
    **I64,
)
whole(
    "other_names",
    "tl.extra tl.math tl.core",
    """
i = tl.core.arange(0, 8)
x = tl.core.load(x_ptr + i)
y = tl.extra.cuda.libdevice.rint(x) + tl.math.floor(x) + tl.math.abs(x)
tl.core.store(out + i, y)
""",
    x_ptr="fp32[8]",
    out="fp32[8]",
)
whole(
    "hexadecimal",
    "tl.uint32",
    """
i = tl.arange(0, 8)
x = tl.load(x_ptr + i)
tl.store(out + i, ((x ^ 0x80000000) >> 28).to(tl.int64) + (x & 0xF))
""",
    x_ptr="u32[8]",
    **I64,
)
whole(
    "float_constants",
    "tl.constexpr",
    """
i = tl.arange(0, 8)
x = tl.load(x_ptr + i)
y = x * S if S > 1 else x
y = y / (K / 3) + (7 // 2)
tl.store(out + i, (y * 8).to(tl.int32))
tl.store(out + i, 1.75, mask=i > 5)
""",
    x_ptr="fp16[8]",
    constants={"S": 1.5, "K": 12},
    **I64,
)
whole(
    "fp16_loop",
    "tl.float16",
    """
i = tl.arange(0, 16)
total = tl.zeros((16,), dtype=tl.float16)
for b in range(0, 6):
    total += tl.load(x_ptr + b * 16 + i)
tl.store(out + i, total)
""",
    x_ptr="fp16[96]",
    out="fp16[16]",
)
