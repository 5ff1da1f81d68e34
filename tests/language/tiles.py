"""Tiles: memory, shapes, products, reductions, scans, sorting, pointers to blocks, descriptors."""

from __future__ import annotations

from tests.language.table import whole

TILE = "i = tl.arange(0, 16)\nj = tl.arange(0, 16)\nat = i[:, None] * 16 + j[None, :]\n"
VECTOR = "i = tl.arange(0, 64)\n"

ORDER = "the order of the sums is the compiler's and the tensor cores'"

# memory
MASKS = {"scalar": "n > 3", "false": "n > 100", "python": "True", "block": "i < n", "joined": "(i < n) & (n > 3)",
         "and": "(i < n) and (n > 3)", "column": "(i < n) & True", "int": "(i < n).to(tl.int1)"}  # fmt: skip
for name, mask in MASKS.items():
    whole(f"mask_{name}", "tl.load tl.store tensor.store", VECTOR + f"""
x = tl.load(x_ptr + i, mask={mask}, other=-1)
tl.store(out + i, x + 1, mask={mask})
tl.store(out + 64 + i, x)
""", x_ptr="i32[64]", n=37, out="i32[128]")  # fmt: skip
whole("mask_broadcast", "tl.load tl.broadcast", TILE + """
x = tl.load(x_ptr + at, mask=i[:, None] < n, other=0.0)
y = tl.load(x_ptr + at, mask=j[None, :] < n, other=2)
tl.store(out + at, x + y, mask=(i[:, None] < 15) & (j[None, :] < n))
""", x_ptr="fp16[16,16]", n=9, out="fp16[16,16]")  # fmt: skip
whole("scalar_access", "tl.load tl.store", """
a = tl.load(x_ptr)
b = tl.load(x_ptr + 1, mask=n > 3, other=7)
c = tl.load(x_ptr + 2, mask=n > 300, other=7)
tl.store(out, a + b)
tl.store(out + 1, c, mask=n > 3)
tl.store(out + 2, c, mask=n > 300)
""", x_ptr="i32[8]<100", n=37, out="i32[8]")  # fmt: skip
whole("load_options", "tl.load tl.store", VECTOR + """
x = tl.load(x_ptr + i, cache_modifier=".cg", volatile=False)
y = tl.load(x_ptr + i, mask=i < 60, other=0, volatile=True)
tl.store(out + i, x + y, cache_modifier=".cs")
""", x_ptr="i32[64]", out="i32[64]")  # fmt: skip
whole("bool_memory", "tl.int1 tl.load", VECTOR + """
x = tl.load(x_ptr + i)
tl.store(out + i, x & (i < 40))
""", x_ptr="i1[64]", out="i1[64]")  # fmt: skip
whole("store_converts", "tl.store", VECTOR + """
x = tl.load(x_ptr + i)
tl.store(out + i, x)
tl.store(out_i + i, x)
tl.store(out_b + i, x)
""", x_ptr="fp32[64]", out="fp16[64]", out_i="i8[64]", out_b="bf16[64]")  # fmt: skip
whole("address_as_number", "tl.pointer_type tensor.to", VECTOR + """
address = x_ptr.to(tl.int64) + i * 4
x = tl.load(address.to(tl.pointer_type(tl.int32)))
words = x_ptr.to(tl.pointer_type(tl.int16))
tl.store(out + i, x + tl.load(words + 2 * i).to(tl.int32))
""", x_ptr="i32[64]", out="i32[64]")  # fmt: skip
for operation in ("add", "max", "min", "and", "or", "xor", "xchg"):
    whole(f"atomic_{operation}", f"tl.atomic_{operation} tensor.atomic_{operation}", VECTOR + f"""
old = tl.atomic_{operation}(out + i, tl.load(x_ptr + i), mask=i < n)
tl.store(out_old + i, old, mask=i < n)
tl.atomic_{operation}(out + 64, tl.load(x_ptr + 1))
""", x_ptr="i32[64]", n=50, out="i32[65]", out_old="i32[64]")  # fmt: skip
whole("atomic_unsigned", "tl.atomic_max tl.atomic_min", VECTOR + """
tl.atomic_max(out + i, tl.load(x_ptr + i), sem="relaxed")
tl.atomic_min(out + i, tl.load(x_ptr + 63 - i), scope="gpu")
""", x_ptr="u32[64]", out="u32[64]")  # fmt: skip
for kind in ("fp16", "bf16", "fp32"):
    whole(f"atomic_add_{kind}", "tl.atomic_add", VECTOR + """
x = tl.load(x_ptr + i)
tl.atomic_add(out + i, x, mask=i < n)
tl.debug_barrier()
tl.atomic_add(out + i, x, sem="relaxed")
""", x_ptr=f"{kind}[64]", n=40, out=f"{kind}[64]", capability=90)  # fmt: skip
whole("atomic_max_fp32", "tl.atomic_max", VECTOR + "tl.atomic_max(out + i, tl.load(x_ptr + i))", x_ptr="fp32[64]", out="fp32[64]")
whole("atomic_programs", "tl.atomic_add", """
old = tl.atomic_add(out, 1)
tl.atomic_add(out + 1 + tl.arange(0, 2), tl.program_id(0))
""", grid=(8,), out="i32[4]")  # fmt: skip
whole("atomic_cas", "tl.atomic_cas tensor.atomic_cas", VECTOR + """
old = tl.atomic_cas(out + i, i * 0, i + 5)
tl.store(out_old + i, old)
one = tl.atomic_cas(out_old, 0, 9)
""", out="i32[64]", out_old="i32[64]")  # fmt: skip

# block pointers and descriptors
POINTER = """
p = tl.make_block_ptr(x_ptr, shape=(m, n), strides=(32, 1), offsets=(8, 16), block_shape=(16, 16), order=(1, 0))
q = tl.make_block_ptr(out, (32, 32), (32, 1), (8, 8), (16, 16), (1, 0))
"""
whole("block_pointer", "tl.make_block_ptr tl.load tl.store", POINTER + """
x = tl.load(p, boundary_check=(0, 1), padding_option="zero")
tl.store(q, x, boundary_check=(0, 1))
""", x_ptr="fp16[32,32]", m=20, n=25, out="fp16[32,32]", until="3.8")  # fmt: skip
whole("block_pointer_nan", "tl.make_block_ptr", POINTER + """
x = tl.load(p, boundary_check=(0,), padding_option="nan")
tl.store(q, x, boundary_check=(1,))
""", x_ptr="bf16[32,32]", m=20, n=32, out="bf16[32,32]", until="3.8")  # fmt: skip
whole("advance", "tl.advance tensor.advance", """
p = tl.make_block_ptr(x_ptr, (32, 32), (32, 1), (0, 0), (16, 16), (1, 0))
total = tl.zeros((16, 16), tl.float32)
for _ in range(0, 2):
    total += tl.load(p)
    p = tl.advance(p, (0, 16))
p = tl.advance(p, (16, -32))
total += tl.load(p, boundary_check=(0, 1))
q = tl.make_block_ptr(out, (16, 16), (16, 1), (0, 0), (16, 16), (1, 0))
tl.store(q, total)
""", x_ptr="fp16[32,32]", out="fp32[16,16]", until="3.8")  # fmt: skip
DESCRIPTOR = """
x = tl.make_tensor_descriptor(x_ptr, shape=[m, 32], strides=[32, 1], block_shape=[16, 16])
y = tl.make_tensor_descriptor(out, shape=[32, 32], strides=[32, 1], block_shape=[16, 16])
"""
whole("descriptor", "tl.make_tensor_descriptor tensor_descriptor.load tensor_descriptor.store tl.tensor_descriptor", DESCRIPTOR + """
y.store([8, 16], x.load([8, 16]))
y.store([0, 0], x.load([0, 24]))
""", x_ptr="fp16[32,32]", m=20, out="fp16[32,32]", capability=90)  # fmt: skip
whole("descriptor_functions", "tl.load_tensor_descriptor tl.store_tensor_descriptor", DESCRIPTOR + """
tl.store_tensor_descriptor(y, [16, 0], tl.load_tensor_descriptor(x, [12, 0]) + 1)
""", x_ptr="fp16[32,32]", m=20, out="fp16[32,32]", capability=90)  # fmt: skip
for operation in ("add", "min", "max", "and", "or", "xor"):
    whole(f"descriptor_atomic_{operation}", f"tensor_descriptor.atomic_{operation}", DESCRIPTOR + f"""
y.atomic_{operation}([20, 16], x.load([0, 0]))
""", x_ptr="u32[32,32]" if operation in ("min", "max") else "i32[32,32]", m=20,
          out="u32[32,32]" if operation in ("min", "max") else "i32[32,32]", capability=90)  # fmt: skip

whole("descriptor_gather", "tensor_descriptor.gather tensor_descriptor.scatter", """
x = tl.make_tensor_descriptor(x_ptr, shape=[32, 32], strides=[32, 1], block_shape=[1, 16])
y = tl.make_tensor_descriptor(out, shape=[32, 32], strides=[32, 1], block_shape=[1, 16])
rows = (tl.arange(0, 8) * 5) % 32
y.scatter(x.gather(rows, 16), 31 - rows, 0)
""", x_ptr="fp16[32,32]", out="fp16[32,32]", capability=100)  # fmt: skip
whole("descriptor_facts", "tensor_descriptor.dtype tensor_descriptor.block_shape tensor_descriptor.block_type", DESCRIPTOR + """
tl.store(out, tl.full((), x.block_shape[0], x.dtype) + (x.block_type.shape[1] == 16))
""", x_ptr="fp16[32,32]", m=20, out="fp16[32,32]", capability=90)  # fmt: skip

# shapes
SHAPES = {
    "reshape": ("tl.reshape tensor.reshape", "tl.reshape(x, (4, 64)).reshape(16, 16)"),
    "trans": ("tl.trans tensor.trans tensor.T", "tl.trans(x) + x.T * 2 + x.trans(1, 0)"),
    "permute": ("tl.permute tensor.permute", "tl.permute(x.reshape(4, 4, 16), (1, 0, 2)).reshape(16, 16) + x.permute(1, 0)"),
    "expand": ("tl.expand_dims tensor.expand_dims tl.broadcast_to tensor.broadcast_to tl.squeeze tl.unsqueeze",
               "tl.broadcast_to(tl.expand_dims(j, 0), (16, 16)) + x + i.expand_dims(1).broadcast_to(16, 16)"),
    "index": ("tensor.__getitem__ tl.slice tl.arange", "x + i[:, None] * 100 + j[None, :]"),
    "broadcast": ("tl.broadcast", "x + tl.full((16, 1), 3, tl.int32) * tl.full((1, 16), 5, tl.int32)"),
    "flip": ("tl.flip tensor.flip", "tl.flip(x, 1) + x.flip(0)"),
    "zeros": ("tl.zeros tl.zeros_like tl.full", "tl.zeros_like(x) + tl.zeros([16, 16], tl.int32) + tl.full([16, 16], -3, tl.int32)"),
    "where_scalar": ("tl.where", "tl.where(x > 0, x, 0) + tl.where(i[:, None] > 3, 1, x)"),
    "sort": ("tl.sort tensor.sort", "tl.sort(x, dim=1) ^ tl.sort(x, descending=True)"),
    "bitonic_merge": ("tl.bitonic_merge", "tl.bitonic_merge(tl.join(tl.sort(x.reshape(32, 8)), tl.flip(tl.sort(x.reshape(32, 8)), 1))"
                      ".permute(0, 2, 1).reshape(32, 16)).reshape(2, 16, 16).sum(0)"),
    "gather": ("tl.gather tensor.gather", "tl.gather(x, (i[:, None] * 3 + j[None, :]) % 16, 1) + x.gather((i[:, None] + 5 + j[None, :] * 0) % 16, 0)"),
    "join_split": ("tl.join tl.split tensor.split", "tl.join(x, x * 2).reshape(16, 32).reshape(16, 16, 2).sum(2)"),
    "sum_axis": ("tl.sum tensor.sum tl.reduce", "tl.sum(x, axis=1, keep_dims=True) + tl.sum(x, 0)[None, :] + tl.sum(x) + x.sum()"),
    "max_axis": ("tl.max tensor.max", "tl.max(x, axis=1, keep_dims=True) - tl.max(x, 0)[None, :] + tl.max(x) + x.max()"),
    "min_axis": ("tl.min tensor.min", "tl.min(x, axis=1, keep_dims=True) - tl.min(x, 0)[None, :] + tl.min(x) + x.min()"),
    "xor_sum": ("tl.xor_sum tensor.xor_sum", "tl.xor_sum(x, axis=1, keep_dims=True) + x.xor_sum(0)[None, :]"),
    "argmax": ("tl.argmax tensor.argmax", "tl.argmax(x % 4, axis=1)[:, None] * 100 + (x % 4).argmax(0)[None, :]"),
    "argmin": ("tl.argmin tensor.argmin", "tl.argmin(x % 4, axis=1)[:, None] * 100 + (x % 4).argmin(0)[None, :]"),
    "cumsum": ("tl.cumsum tensor.cumsum", "tl.cumsum(x, axis=1) + x.cumsum(0, reverse=True)"),
    "cumprod": ("tl.cumprod tensor.cumprod", "tl.cumprod(x % 3 + 2, axis=1) + x.cumprod(0)"),
    "reduce_or": ("tl.reduce_or tensor.reduce_or", "tl.reduce_or(x, 1)[:, None] + x.reduce_or(0)[None, :]"),
}
for name, (covers, expression) in SHAPES.items():
    whole(name, covers, TILE + f"x = tl.load(x_ptr + at)\ntl.store(out + at, {expression})", x_ptr="i32[16,16]", out="i32[16,16]")
for name, expression in (("view", "tl.view(x, [256])"), ("view_method", "x.view(256)"), ("ravel", "tl.ravel(x)"), ("ravel_method", "x.ravel()")):
    covers = f"tensor.{name.removesuffix('_method')}" if name.endswith("_method") else f"tl.{name}"
    whole(name, covers, TILE + f"x = tl.load(x_ptr + at)\ntl.store(out + tl.arange(0, 256), {expression})",
          x_ptr="i32[16,16]", out="i32[16,16]", unordered=True, why="Triton lets the compiler put a view's elements in any order")  # fmt: skip
whole("interleave", "tl.interleave tl.join tl.split", """
i = tl.arange(0, 16)
x = tl.load(x_ptr + i)
y = tl.load(x_ptr + 16 + i)
z = tl.interleave(x, y)
a, b = tl.split(z.reshape(16, 2))
tl.store(out + tl.arange(0, 32), z)
tl.store(out + 32 + i, a - b)
""", x_ptr="i32[32]", out="i32[48]")  # fmt: skip
whole("nibbles", "tl.interleave tensor.__rshift__", """
i = tl.arange(0, 64)
k = tl.arange(0, 512)
packed = tl.load(x_ptr + k // 8)
low = (packed >> (4 * (k % 8))) & 0xF
tl.store(out + k, tl.where(low >= 8, low - 16, low).to(tl.int8))
tl.store(out_b + k, ((packed << (28 - 4 * (k % 8))) >> 28).to(tl.int8))
""", x_ptr="i32[64]", out="i8[512]", out_b="i8[512]")  # fmt: skip
whole("cat", "tl.cat", """
i = tl.arange(0, 32)
tl.store(out + tl.arange(0, 64), tl.cat(tl.load(x_ptr + i), tl.load(x_ptr + 32 + i), can_reorder=True))
""", x_ptr="i32[64]", out="i32[64]", unordered=True, why="with can_reorder the compiler may put the elements in any order")  # fmt: skip
whole("topk", "tl.topk", VECTOR + "tl.store(out + tl.arange(0, 8), tl.topk(tl.load(x_ptr + i), 8))", x_ptr="i32[64]", out="i32[8]")
whole("histogram", "tl.histogram tensor.histogram", VECTOR + """
x = tl.load(x_ptr + i)
tl.store(out + tl.arange(0, 16), tl.histogram(x, 16) + 100 * x.histogram(16, mask=i < 20))
""", x_ptr="i32[64]<16", out="i32[16]")  # fmt: skip
whole("softmax", "tl.softmax tensor.softmax", TILE + "tl.store(out + at, tl.softmax(tl.load(x_ptr + at), dim=1))",
      x_ptr="fp32[16,16]", out="fp32[16,16]", ulp=16, near=1e-6, until="3.8", why=ORDER)  # fmt: skip
for kind, ulp in (("fp16", 8), ("bf16", 2), ("fp32", 16)):
    whole(f"sum_{kind}", "tl.sum", TILE + """
x = tl.load(x_ptr + at)
tl.store(out + i, tl.sum(x, axis=1))
tl.store(out + 16, tl.sum(x))
""", x_ptr=f"{kind}[16,16]", out=f"{kind}[17]", ulp=ulp, near=0.1,
          why=ORDER)  # fmt: skip
    whole(f"max_{kind}_nan", "tl.max tl.min", TILE + """
x = tl.load(x_ptr + at)
tl.store(out + i, tl.max(x, axis=1))
tl.store(out + 16 + i, tl.min(x, axis=1))
""", x_ptr=f"{kind}[16,16]e", out=f"{kind}[32]")  # fmt: skip
    whole(f"cumsum_{kind}", "tl.cumsum", TILE + "tl.store(out + at, tl.cumsum(tl.load(x_ptr + at), axis=1))",
          x_ptr=f"{kind}[16,16]", out=f"{kind}[16,16]", ulp=32, near=0.1, why=ORDER)  # fmt: skip
for kind in ("i8", "u8", "i16", "i64"):
    whole(f"sum_{kind}", "tl.sum", TILE + "x = tl.load(x_ptr + at)\ntl.store(out + i, tl.sum(x, axis=1))", x_ptr=f"{kind}[16,16]", out="i64[16]")
    whole(f"max_ints_{kind}", "tl.max", TILE + "x = tl.load(x_ptr + at)\ntl.store(out + i, tl.max(x, axis=1))", x_ptr=f"{kind}[16,16]", out="i64[16]")
whole("argmax_of_reshaped", "tl.argmax", TILE + """
tl.store(out, tl.argmax(tl.reshape(tl.load(x_ptr + at), (256,)), 0))
""", x_ptr="fp16[16,16]", out="i32[1]", differs="the place of a maximum of a reshaped tile is not the place in memory: the compiler "
      "lets the reshape put elements in any order before a reduction")  # fmt: skip
whole("max_indices", "tl.max tl.min tl.argmax", TILE + """
x = tl.load(x_ptr + at)
v, k = tl.max(x, axis=1, return_indices=True)
w, l = tl.min(x, axis=1, return_indices=True)
tl.store(out + i, v + w)
tl.store(out_k + i, k * 100 + l)
""", x_ptr="fp16[16,16]", out="fp16[16]", out_k="i32[16]")  # fmt: skip
COMBINE = """
@triton.jit
def smaller_sum(a, i, b, j):
    take = a < b
    return tl.where(take, a, b), i + j


@triton.jit
def larger(a, b):
    if a > b:
        r = a
    else:
        r = b
    return r


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def clipped(x):
    if x > 3:
        return x - 3
    else:
        return x * 2
"""
whole("reduce_custom", "tl.reduce tensor.reduce", TILE + """
x = tl.load(x_ptr + at)
low, total = tl.reduce((x, at), 1, smaller_sum)
tl.store(out + i, low)
tl.store(out + 16 + i, total)
tl.store(out + 32 + i, tl.reduce(x, 0, larger))
tl.store(out + 48, x.reduce(None, larger))
""", x_ptr="i32[16,16]", out="i32[64]", text=COMBINE)  # fmt: skip
whole("scan_custom", "tl.associative_scan tensor.associative_scan", TILE + """
x = tl.load(x_ptr + at)
a, b = tl.associative_scan((x, at), 1, affine)
tl.store(out + at, b)
tl.store(out + 256 + at, tl.associative_scan(x, 0, larger, reverse=True))
""", x_ptr="i32[16,16]", out="i32[512]", text=COMBINE)  # fmt: skip
whole("map_elementwise", "tl.map_elementwise", VECTOR + "tl.store(out + i, tl.map_elementwise(clipped, tl.load(x_ptr + i)))",
      x_ptr="i32[64]<10", out="i32[64]", text=COMBINE)  # fmt: skip

# products
DOT = """
i = tl.arange(0, 32)
at = i[:, None] * 32 + i[None, :]
x = tl.load(x_ptr + at)
y = tl.load(y_ptr + at)
"""
DOTS = {
    "fp16": ("fp16", "fp32", "tl.dot(x, y)", 8, 1e-3), "bf16": ("bf16", "fp32", "tl.dot(x, y)", 8, 1e-3),
    "i8": ("i8", "i32", "tl.dot(x, y)", 0, 0.0), "i8_typed": ("i8", "i32", "tl.dot(x, y, out_dtype=tl.int32)", 0, 0.0),
    "acc": ("fp16", "fp32", "tl.dot(x, tl.trans(y), acc=tl.full((32, 32), 2.5, tl.float32))", 8, 1e-3),
    "i8_acc": ("i8", "i32", "tl.dot(x, tl.trans(y), at, out_dtype=tl.int32)", 0, 0.0),
    "fp16_out": ("fp16", "fp16", "tl.dot(x, y, out_dtype=tl.float16)", 4, 0.15),
    "fp32_tf32": ("fp32", "fp32", "tl.dot(x, y)", 8, 2e-3),
    "fp32_ieee": ("fp32", "fp32", 'tl.dot(x, y, input_precision="ieee")', 8, 1e-4),
    "fp32_tf32x3": ("fp32", "fp32", 'tl.dot(x, y, input_precision="tf32x3")', 8, 1e-3),
    "no_tf32": ("fp32", "fp32", "tl.dot(x, y, allow_tf32=False)", 8, 1e-4),
    "transposed_i8": ("i8", "i32", "tl.dot(tl.trans(x), tl.trans(y), out_dtype=tl.int32) + tl.dot(x, y)", 0, 0.0),
    "imprecise": ("fp16", "fp32", "tl.dot(x, y, max_num_imprecise_acc=0)", 8, 1e-3),
    "cast": ("fp16", "fp16", "tl.dot(x, y).to(tl.float16)", 1, 0.03),
    "fp8e5": ("fp8e5", "fp32", "tl.dot(x, y)", 64, 64.0),
}  # fmt: skip
for name, (kind, out, expression, ulp, near) in DOTS.items():
    spec = "fp16[32,32]" if kind == "fp8e5" else f"{kind}[32,32]"
    convert = "x = x.to(tl.float8e5)\ny = y.to(tl.float8e5)\n" if kind == "fp8e5" else ""
    whole(f"dot_{name}", "tl.dot", DOT + convert + f"tl.store(out + at, {expression})", x_ptr=spec, y_ptr=spec, out=f"{out}[32,32]", ulp=ulp,
          near=near, capability=90 if kind == "fp8e5" else 80, why=ORDER)  # fmt: skip
whole("dot_batch", "tl.dot", """
i = tl.arange(0, 16)
at = tl.arange(0, 2)[:, None, None] * 256 + i[None, :, None] * 16 + i[None, None, :]
tl.store(out + at, tl.dot(tl.load(x_ptr + at), tl.load(x_ptr + 512 + at)))
""", x_ptr="fp16[4,16,16]", out="fp32[2,16,16]", ulp=8, near=1e-3, why=ORDER)  # fmt: skip
whole("dot_scaled", "tl.dot_scaled", """
i = tl.arange(0, 128)
k = tl.arange(0, 64)
s = tl.arange(0, 2)
x = tl.load(x_ptr + i[:, None] * 64 + k[None, :])
y = tl.load(x_ptr + k[:, None] * 128 + i[None, :])
a = tl.load(s_ptr + i[:, None] * 2 + s[None, :])
tl.store(out + i[:, None] * 128 + i[None, :], tl.dot_scaled(x, a, "e5m2", y, a, "e5m2"))
""", x_ptr="u8[128,64]<60", s_ptr="u8[128,2]<127", out="fp32[128,128]", capability=90, refused="tl.dot_scaled runs on a GPU only")  # fmt: skip
whole("w8a8_loop", "tl.dot tl.range", """
i = tl.arange(0, 16)
j = tl.arange(0, 32)
total = tl.zeros((16, 16), tl.int32)
for k in range(0, 64, 32):
    x = tl.load(x_ptr + i[:, None] * 64 + k + j[None, :]).to(tl.float32) / tl.load(s_ptr + i)[:, None]
    q = tl.clamp(tl.floor(x + 0.5), -128, 127).to(tl.int8)
    w = tl.load(w_ptr + i[None, :] * 64 + k + j[:, None])
    total = tl.dot(q, w, total, out_dtype=tl.int32)
tl.store(out + i[:, None] * 16 + i[None, :], total)
""", x_ptr="fp16[16,64]", s_ptr="fp32[16]", w_ptr="i8[16,64]", out="i32[16,16]", near=260.0,
      why="a quotient at a tie may round the other way: the GPU's division is right to two units in the last place")  # fmt: skip
whole("three_dimensions", "tensor.__getitem__ tl.sum", """
i = tl.arange(0, 4)
j = tl.arange(0, 8)
at = i[:, None, None] * 64 + j[None, :, None] * 8 + j[None, None, :]
x = tl.load(x_ptr + at, mask=(j[None, :, None] < 7) & (i < 3)[:, None, None], other=1)
tl.store(out + i[:, None] * 8 + j[None, :], tl.sum(x, axis=2) + tl.max(x, axis=1))
""", x_ptr="i32[4,8,8]<100", out="i32[32]")  # fmt: skip
whole("dot_by_sum", "tl.sum tensor.__mul__", DOT + """
tl.store(out + i, tl.sum(x.to(tl.int32) * tl.trans(y).to(tl.int32), axis=1))
tl.store(out_f + i, tl.sum(x.to(tl.float32) * 0.5, axis=0))
""", x_ptr="i8[32,32]", y_ptr="i8[32,32]", out="i32[32]", out_f="fp32[32]")  # fmt: skip
