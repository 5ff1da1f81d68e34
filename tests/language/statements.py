"""Python around the tensors: loops, conditions, calls, tuples, constants."""

from __future__ import annotations

from tests.language.cases import whole

I64 = {"out": "i64[8]"}
whole(
    "loop_variable",
    "tl.range tl.int64",
    """
total = 0
wide = tl.full((), 0, tl.int64)
for b in range(0, 5):
    wide += b.to(tl.int64) * 3000000000
    total += b * b // 2
for b in tl.range(2, 9, 3, num_stages=2):
    total += (b - 5) // 2 + (b - 7) % 4
for b in range(10, 0, -3):
    total += b
tl.store(out, wide)
tl.store(out + 1, total)
""",
    **I64,
)
whole(
    "loop_wraps",
    "tl.range",
    """
x = 2147483647
total = 0
for b in range(0, 3):
    total += (x + b) // 2
    x += b
tl.store(out, total)
tl.store(out + 1, x)
""",
    **I64,
)
whole(
    "loop_bound",
    "tl.range tensor.dtype",
    """
n = tl.load(n_ptr)
total = tl.zeros((), tl.int32)
for b in range(n, 3 * n, 2):
    total += b
for b in tl.range(0, n):
    for c in range(b):
        total += c
tl.store(out, total)
tl.store(out + 1, n.dtype == tl.int32)
""",
    n_ptr="i32[1]<10",
    **I64,
)
whole(
    "static_range",
    "tl.static_range tl.constexpr",
    """
total = 0
for b in tl.static_range(0, 4):
    x = tl.arange(0, 2 << b)
    total += tl.sum(x)
for b in tl.static_range(3):
    if b == 1:
        total += 100
for b in tl.static_range(8, 0, step=-2):
    total += b * 1000
tl.store(out, total)
""",
    **I64,
)
whole(
    "while_counter",
    "tl.condition tensor.__lt__",
    """
n = tl.load(n_ptr)
i = 0
p = n_ptr
seen = tl.zeros((), tl.int64)
while i < 5:
    seen += tl.load(p).to(tl.int64) << 20
    i += 1
    p += 1
while (i > 0) & (seen > 0):
    i -= 1
    seen -= i
tl.store(out, seen)
tl.store(out + 1, i - 1)
tl.store(out + 2, (i - 7) // 2)
tl.store(out + 3, (i - 7) % 4)
""",
    n_ptr="i32[8]<1000",
    **I64,
)
whole(
    "conditions",
    "tensor.item",
    """
n = tl.load(n_ptr)
if n > 0:
    a = 1
elif n < -5:
    a = 2
else:
    a = 3
b = 10 if n > 0 else 20
c = n > 0 and n < 100
d = n > 0 or n == -7
e = not (n > 0)
if not e:
    a += 100
if N > 4 and c:
    a += 1000
tl.store(out, a)
tl.store(out + 1, b)
tl.store(out + 2, c)
tl.store(out + 3, d)
tl.store(out + 4, e)
if N == 8:
    tl.store(out + 5, 5)
""",
    n_ptr="i32[1]<50",
    constants={"N": 8},
    **I64,
)
whole(
    "min_max",
    "tl.minimum tl.maximum",
    """
n = tl.load(n_ptr)
i = tl.arange(0, 8)
first = min(8, 4)
tl.store(out + i, min(i * 10, n) + max(n, 3) + min(3, 5) * max(N, 2, 7) + first, mask=i < 8)
""",
    n_ptr="i32[1]<50",
    constants={"N": 4},
    **I64,
)
HELPERS = """
@triton.jit
def pair(a, b, swap=False, SCALE: tl.constexpr = 2):
    if swap:
        return b * SCALE, a
    return a * SCALE, b


@triton.jit
def early(n):
    if n > 10:
        return n * 2
    return n + 1


@triton.jit
def twice(f: tl.constexpr, x):
    return f(f(x))


@triton.jit
def bump(x):
    return x + 3


@triton.constexpr_function
def half(n):
    return n // 2


@triton.jit
def size(N: tl.constexpr):
    return N
"""
whole(
    "helpers",
    "tl.tuple",
    """
n = tl.load(n_ptr)
a, b = pair(n, 5)
c, d = pair(n, 5, swap=True, SCALE=3)
t = (a, b, (c, d))
e, f = t[2]
tl.store(out, a + b)
tl.store(out + 1, e - f)
tl.store(out + 2, early(n) + early(2))
tl.store(out + 3, twice(bump, n))
tl.store(out + 4 + tl.arange(0, half(4)), tl.arange(0, half(4)) + half(N))
tl.store(out + 6, t[0])
x, y = 3, 4.5
tl.store(out + 7, (x // 2) + (y * 2).to(tl.int32))
""",
    n_ptr="i32[1]<50",
    constants={"N": 8},
    text=HELPERS,
    **I64,
)
whole(
    "early_return",
    "tl.program_id tl.num_programs",
    """
pid = tl.program_id(0)
tl.store(out + pid, pid * 10 + tl.num_programs(0) + tl.program_id(axis=1) * 1000 + tl.num_programs(1))
if pid > 2:
    return
tl.store(out + pid + 4, -pid)
""",
    grid=(4,),
    **I64,
)
whole(
    "constants",
    "tl.constexpr tl.static_assert tl.static_print tl.const tl.device_assert tl.device_print",
    """
tl.static_assert(N == 8, "eight")
tl.static_print(N)
HALF: tl.constexpr = N // 2
i = tl.arange(0, HALF)
KIND: tl.constexpr = tl.float16 if N > 4 else tl.float32
x = tl.full((HALF,), 1.0009765, KIND)
tl.store(out + i, (x * 1024).to(tl.int64) + N.value)
tl.store(out + HALF + i, tl.zeros((HALF,), tl.int64) + (-7 // 2) + (-7 % 3) + (7 / 2 > 3))
assert N == 8
tl.device_assert(N == 8, "eight")
tl.device_print("n", N)
print("n", N)
""",
    constants={"N": 8},
    **I64,
)
