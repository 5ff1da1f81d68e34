"""Loads, stores and atomics with masks of every kind; block pointers and descriptors."""

from __future__ import annotations

from tests.language.cases import whole

TILE = "i = tl.arange(0, 16)\nj = tl.arange(0, 16)\nat = i[:, None] * 16 + j[None, :]\n"
VECTOR = "i = tl.arange(0, 64)\n"

MASKS = {
    "scalar": "n > 3",
    "false": "n > 100",
    "python": "True",
    "block": "i < n",
    "joined": "(i < n) & (n > 3)",
    "and": "(i < n) and (n > 3)",
    "column": "(i < n) & True",
    "int": "(i < n).to(tl.int1)",
}
for name, mask in MASKS.items():
    whole(
        f"mask_{name}",
        "tl.load tl.store tensor.store",
        VECTOR
        + f"""
x = tl.load(x_ptr + i, mask={mask}, other=-1)
tl.store(out + i, x + 1, mask={mask})
tl.store(out + 64 + i, x)
""",
        x_ptr="i32[64]",
        n=37,
        out="i32[128]",
    )
whole(
    "mask_broadcast",
    "tl.load tl.broadcast",
    TILE
    + """
x = tl.load(x_ptr + at, mask=i[:, None] < n, other=0.0)
y = tl.load(x_ptr + at, mask=j[None, :] < n, other=2)
tl.store(out + at, x + y, mask=(i[:, None] < 15) & (j[None, :] < n))
""",
    x_ptr="fp16[16,16]",
    n=9,
    out="fp16[16,16]",
)
whole(
    "scalar_access",
    "tl.load tl.store",
    """
a = tl.load(x_ptr)
b = tl.load(x_ptr + 1, mask=n > 3, other=7)
c = tl.load(x_ptr + 2, mask=n > 300, other=7)
tl.store(out, a + b)
tl.store(out + 1, c, mask=n > 3)
tl.store(out + 2, c, mask=n > 300)
""",
    x_ptr="i32[8]<100",
    n=37,
    out="i32[8]",
)
whole(
    "load_options",
    "tl.load tl.store",
    VECTOR
    + """
x = tl.load(x_ptr + i, cache_modifier=".cg", volatile=False)
y = tl.load(x_ptr + i, mask=i < 60, other=0, volatile=True)
tl.store(out + i, x + y, cache_modifier=".cs")
""",
    x_ptr="i32[64]",
    out="i32[64]",
)
whole(
    "bool_memory",
    "tl.int1 tl.load",
    VECTOR
    + """
x = tl.load(x_ptr + i)
tl.store(out + i, x & (i < 40))
""",
    x_ptr="i1[64]",
    out="i1[64]",
)
whole(
    "store_converts",
    "tl.store",
    VECTOR
    + """
x = tl.load(x_ptr + i)
tl.store(out + i, x)
tl.store(out_i + i, x)
tl.store(out_b + i, x)
""",
    x_ptr="fp32[64]",
    out="fp16[64]",
    out_i="i8[64]",
    out_b="bf16[64]",
)
whole(
    "address_as_number",
    "tl.pointer_type tensor.to",
    VECTOR
    + """
address = x_ptr.to(tl.int64) + i * 4
x = tl.load(address.to(tl.pointer_type(tl.int32)))
words = x_ptr.to(tl.pointer_type(tl.int16))
tl.store(out + i, x + tl.load(words + 2 * i).to(tl.int32))
""",
    x_ptr="i32[64]",
    out="i32[64]",
)
for operation in ("add", "max", "min", "and", "or", "xor", "xchg"):
    whole(
        f"atomic_{operation}",
        f"tl.atomic_{operation} tensor.atomic_{operation}",
        VECTOR
        + f"""
old = tl.atomic_{operation}(out + i, tl.load(x_ptr + i), mask=i < n)
tl.store(out_old + i, old, mask=i < n)
tl.atomic_{operation}(out + 64, tl.load(x_ptr + 1))
""",
        x_ptr="i32[64]",
        n=50,
        out="i32[65]",
        out_old="i32[64]",
    )
whole(
    "atomic_unsigned",
    "tl.atomic_max tl.atomic_min",
    VECTOR
    + """
tl.atomic_max(out + i, tl.load(x_ptr + i), sem="relaxed")
tl.atomic_min(out + i, tl.load(x_ptr + 63 - i), scope="gpu")
""",
    x_ptr="u32[64]",
    out="u32[64]",
)
for kind in ("fp16", "bf16", "fp32"):
    whole(
        f"atomic_add_{kind}",
        "tl.atomic_add",
        VECTOR
        + """
x = tl.load(x_ptr + i)
tl.atomic_add(out + i, x, mask=i < n)
tl.debug_barrier()
tl.atomic_add(out + i, x, sem="relaxed")
""",
        x_ptr=f"{kind}[64]",
        n=40,
        out=f"{kind}[64]",
        capability=90,
    )
whole(
    "atomic_max_fp32",
    "tl.atomic_max",
    VECTOR + "tl.atomic_max(out + i, tl.load(x_ptr + i))",
    x_ptr="fp32[64]",
    out="fp32[64]",
)
whole(
    "atomic_programs",
    "tl.atomic_add",
    """
old = tl.atomic_add(out, 1)
tl.atomic_add(out + 1 + tl.arange(0, 2), tl.program_id(0))
""",
    grid=(8,),
    out="i32[4]",
)
whole(
    "atomic_cas",
    "tl.atomic_cas tensor.atomic_cas",
    VECTOR
    + """
old = tl.atomic_cas(out + i, i * 0, i + 5)
tl.store(out_old + i, old)
one = tl.atomic_cas(out_old, 0, 9)
""",
    out="i32[64]",
    out_old="i32[64]",
)

# block pointers and descriptors
POINTER = """
p = tl.make_block_ptr(x_ptr, shape=(m, n), strides=(32, 1), offsets=(8, 16), block_shape=(16, 16), order=(1, 0))
q = tl.make_block_ptr(out, (32, 32), (32, 1), (8, 8), (16, 16), (1, 0))
"""
whole(
    "block_pointer",
    "tl.make_block_ptr tl.load tl.store",
    POINTER
    + """
x = tl.load(p, boundary_check=(0, 1), padding_option="zero")
tl.store(q, x, boundary_check=(0, 1))
""",
    x_ptr="fp16[32,32]",
    m=20,
    n=25,
    out="fp16[32,32]",
    until="3.8",
)
whole(
    "block_pointer_nan",
    "tl.make_block_ptr",
    POINTER
    + """
x = tl.load(p, boundary_check=(0,), padding_option="nan")
tl.store(q, x, boundary_check=(1,))
""",
    x_ptr="bf16[32,32]",
    m=20,
    n=32,
    out="bf16[32,32]",
    until="3.8",
)
whole(
    "advance",
    "tl.advance tensor.advance",
    """
p = tl.make_block_ptr(x_ptr, (32, 32), (32, 1), (0, 0), (16, 16), (1, 0))
total = tl.zeros((16, 16), tl.float32)
for _ in range(0, 2):
    total += tl.load(p)
    p = tl.advance(p, (0, 16))
p = tl.advance(p, (16, -32))
total += tl.load(p, boundary_check=(0, 1))
q = tl.make_block_ptr(out, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
tl.store(q, total)
""",
    x_ptr="fp16[32,32]",
    out="fp32[16,16]",
    until="3.8",
)
DESCRIPTOR = """
x = tl.make_tensor_descriptor(x_ptr, shape=[m, 32], strides=[32, 1], block_shape=[16, 16])
y = tl.make_tensor_descriptor(out, shape=[32, 32], strides=[32, 1], block_shape=[16, 16])
"""
whole(
    "descriptor",
    "tl.make_tensor_descriptor tensor_descriptor.load tensor_descriptor.store tl.tensor_descriptor",
    DESCRIPTOR
    + """
y.store([8, 16], x.load([8, 16]))
y.store([0, 0], x.load([0, 24]))
""",
    x_ptr="fp16[32,32]",
    m=20,
    out="fp16[32,32]",
    capability=90,
)
whole(
    "descriptor_functions",
    "tl.load_tensor_descriptor tl.store_tensor_descriptor",
    DESCRIPTOR
    + """
tl.store_tensor_descriptor(y, [16, 0], tl.load_tensor_descriptor(x, [12, 0]) + 1)
""",
    x_ptr="fp16[32,32]",
    m=20,
    out="fp16[32,32]",
    capability=90,
)
for operation in ("add", "min", "max", "and", "or", "xor"):
    whole(
        f"descriptor_atomic_{operation}",
        f"tensor_descriptor.atomic_{operation}",
        DESCRIPTOR
        + f"""
y.atomic_{operation}([20, 16], x.load([0, 0]))
""",
        x_ptr="u32[32,32]" if operation in ("min", "max") else "i32[32,32]",
        m=20,
        out="u32[32,32]" if operation in ("min", "max") else "i32[32,32]",
        capability=90,
    )

whole(
    "descriptor_gather",
    "tensor_descriptor.gather tensor_descriptor.scatter",
    """
x = tl.make_tensor_descriptor(x_ptr, shape=[32, 32], strides=[32, 1], block_shape=[1, 16])
y = tl.make_tensor_descriptor(out, shape=[32, 32], strides=[32, 1], block_shape=[1, 16])
rows = (tl.arange(0, 8) * 5) % 32
y.scatter(x.gather(rows, 16), 31 - rows, 0)
""",
    x_ptr="fp16[32,32]",
    out="fp16[32,32]",
    capability=100,
)
whole(
    "descriptor_facts",
    "tensor_descriptor.dtype tensor_descriptor.block_shape tensor_descriptor.block_type",
    DESCRIPTOR
    + """
tl.store(out, tl.full((), x.block_shape[0], x.dtype) + (x.block_type.shape[1] == 16))
""",
    x_ptr="fp16[32,32]",
    m=20,
    out="fp16[32,32]",
    capability=90,
)
