"""Shapes of tiles, reductions, scans, sorting."""

from __future__ import annotations

from tests.language.cases import whole

TILE = "i = tl.arange(0, 16)\nj = tl.arange(0, 16)\nat = i[:, None] * 16 + j[None, :]\n"
VECTOR = "i = tl.arange(0, 64)\n"
ORDER = "the order of the sums is the compiler's and the tensor cores'"

SHAPES = {
    "reshape": ("tl.reshape tensor.reshape", "tl.reshape(x, (4, 64)).reshape(16, 16)"),
    "trans": ("tl.trans tensor.trans tensor.T", "tl.trans(x) + x.T * 2 + x.trans(1, 0)"),
    "permute": (
        "tl.permute tensor.permute",
        "tl.permute(x.reshape(4, 4, 16), (1, 0, 2)).reshape(16, 16) + x.permute(1, 0)",
    ),
    "expand": (
        "tl.expand_dims tensor.expand_dims tl.broadcast_to tensor.broadcast_to tl.squeeze tl.unsqueeze",
        "tl.broadcast_to(tl.expand_dims(j, 0), (16, 16)) + x + i.expand_dims(1).broadcast_to(16, 16)",
    ),
    "index": ("tensor.__getitem__ tl.slice tl.arange", "x + i[:, None] * 100 + j[None, :]"),
    "broadcast": ("tl.broadcast", "x + tl.full((16, 1), 3, tl.int32) * tl.full((1, 16), 5, tl.int32)"),
    "flip": ("tl.flip tensor.flip", "tl.flip(x, 1) + x.flip(0)"),
    "zeros": (
        "tl.zeros tl.zeros_like tl.full",
        "tl.zeros_like(x) + tl.zeros([16, 16], tl.int32) + tl.full([16, 16], -3, tl.int32)",
    ),
    "where_scalar": ("tl.where", "tl.where(x > 0, x, 0) + tl.where(i[:, None] > 3, 1, x)"),
    "sort": ("tl.sort tensor.sort", "tl.sort(x, dim=1) ^ tl.sort(x, descending=True)"),
    "bitonic_merge": (
        "tl.bitonic_merge",
        "tl.bitonic_merge(tl.join(tl.sort(x.reshape(32, 8)), tl.flip(tl.sort(x.reshape(32, 8)), 1))"
        ".permute(0, 2, 1).reshape(32, 16)).reshape(2, 16, 16).sum(0)",
    ),
    "gather": (
        "tl.gather tensor.gather",
        "tl.gather(x, (i[:, None] * 3 + j[None, :]) % 16, 1) + x.gather((i[:, None] + 5 + j[None, :] * 0) % 16, 0)",
    ),
    "join_split": ("tl.join tl.split tensor.split", "tl.join(x, x * 2).reshape(16, 32).reshape(16, 16, 2).sum(2)"),
    "sum_axis": (
        "tl.sum tensor.sum tl.reduce",
        "tl.sum(x, axis=1, keep_dims=True) + tl.sum(x, 0)[None, :] + tl.sum(x) + x.sum()",
    ),
    "max_axis": (
        "tl.max tensor.max",
        "tl.max(x, axis=1, keep_dims=True) - tl.max(x, 0)[None, :] + tl.max(x) + x.max()",
    ),
    "min_axis": (
        "tl.min tensor.min",
        "tl.min(x, axis=1, keep_dims=True) - tl.min(x, 0)[None, :] + tl.min(x) + x.min()",
    ),
    "xor_sum": ("tl.xor_sum tensor.xor_sum", "tl.xor_sum(x, axis=1, keep_dims=True) + x.xor_sum(0)[None, :]"),
    "argmax": ("tl.argmax tensor.argmax", "tl.argmax(x % 4, axis=1)[:, None] * 100 + (x % 4).argmax(0)[None, :]"),
    "argmin": ("tl.argmin tensor.argmin", "tl.argmin(x % 4, axis=1)[:, None] * 100 + (x % 4).argmin(0)[None, :]"),
    "cumsum": ("tl.cumsum tensor.cumsum", "tl.cumsum(x, axis=1) + x.cumsum(0, reverse=True)"),
    "cumprod": ("tl.cumprod tensor.cumprod", "tl.cumprod(x % 3 + 2, axis=1) + x.cumprod(0)"),
    "reduce_or": ("tl.reduce_or tensor.reduce_or", "tl.reduce_or(x, 1)[:, None] + x.reduce_or(0)[None, :]"),
}
for name, (covers, expression) in SHAPES.items():
    whole(
        name,
        covers,
        TILE + f"x = tl.load(x_ptr + at)\ntl.store(out + at, {expression})",
        x_ptr="i32[16,16]",
        out="i32[16,16]",
    )
for name, expression in (
    ("view", "tl.view(x, [256])"),
    ("view_method", "x.view(256)"),
    ("ravel", "tl.ravel(x)"),
    ("ravel_method", "x.ravel()"),
):
    covers = f"tensor.{name.removesuffix('_method')}" if name.endswith("_method") else f"tl.{name}"
    whole(
        name,
        covers,
        TILE + f"x = tl.load(x_ptr + at)\ntl.store(out + tl.arange(0, 256), {expression})",
        x_ptr="i32[16,16]",
        out="i32[16,16]",
        unordered=True,
        why="Triton lets the compiler put a view's elements in any order",
    )
whole(
    "interleave",
    "tl.interleave tl.join tl.split",
    """
i = tl.arange(0, 16)
x = tl.load(x_ptr + i)
y = tl.load(x_ptr + 16 + i)
z = tl.interleave(x, y)
a, b = tl.split(z.reshape(16, 2))
tl.store(out + tl.arange(0, 32), z)
tl.store(out + 32 + i, a - b)
""",
    x_ptr="i32[32]",
    out="i32[48]",
)
whole(
    "nibbles",
    "tl.interleave tensor.__rshift__",
    """
i = tl.arange(0, 64)
k = tl.arange(0, 512)
packed = tl.load(x_ptr + k // 8)
low = (packed >> (4 * (k % 8))) & 0xF
tl.store(out + k, tl.where(low >= 8, low - 16, low).to(tl.int8))
tl.store(out_b + k, ((packed << (28 - 4 * (k % 8))) >> 28).to(tl.int8))
""",
    x_ptr="i32[64]",
    out="i8[512]",
    out_b="i8[512]",
)
whole(
    "cat",
    "tl.cat",
    """
i = tl.arange(0, 32)
tl.store(out + tl.arange(0, 64), tl.cat(tl.load(x_ptr + i), tl.load(x_ptr + 32 + i), can_reorder=True))
""",
    x_ptr="i32[64]",
    out="i32[64]",
    unordered=True,
    why="with can_reorder the compiler may put the elements in any order",
)
whole(
    "topk",
    "tl.topk",
    VECTOR + "tl.store(out + tl.arange(0, 8), tl.topk(tl.load(x_ptr + i), 8))",
    x_ptr="i32[64]",
    out="i32[8]",
)
whole(
    "histogram",
    "tl.histogram tensor.histogram",
    VECTOR
    + """
x = tl.load(x_ptr + i)
tl.store(out + tl.arange(0, 16), tl.histogram(x, 16) + 100 * x.histogram(16, mask=i < 20))
""",
    x_ptr="i32[64]<16",
    out="i32[16]",
)
whole(
    "softmax",
    "tl.softmax tensor.softmax",
    TILE + "tl.store(out + at, tl.softmax(tl.load(x_ptr + at), dim=1))",
    x_ptr="fp32[16,16]",
    out="fp32[16,16]",
    ulp=16,
    near=1e-6,
    until="3.8",
    why=ORDER,
)
for kind, ulp in (("fp16", 8), ("bf16", 2), ("fp32", 16)):
    whole(
        f"sum_{kind}",
        "tl.sum",
        TILE
        + """
x = tl.load(x_ptr + at)
tl.store(out + i, tl.sum(x, axis=1))
tl.store(out + 16, tl.sum(x))
""",
        x_ptr=f"{kind}[16,16]",
        out=f"{kind}[17]",
        ulp=ulp,
        near=0.1,
        why=ORDER,
    )
    whole(
        f"max_{kind}_nan",
        "tl.max tl.min",
        TILE
        + """
x = tl.load(x_ptr + at)
tl.store(out + i, tl.max(x, axis=1))
tl.store(out + 16 + i, tl.min(x, axis=1))
""",
        x_ptr=f"{kind}[16,16]e",
        out=f"{kind}[32]",
    )
    whole(
        f"cumsum_{kind}",
        "tl.cumsum",
        TILE + "tl.store(out + at, tl.cumsum(tl.load(x_ptr + at), axis=1))",
        x_ptr=f"{kind}[16,16]",
        out=f"{kind}[16,16]",
        ulp=32,
        near=0.1,
        why=ORDER,
    )
for kind in ("i8", "u8", "i16", "i64"):
    whole(
        f"sum_{kind}",
        "tl.sum",
        TILE + "x = tl.load(x_ptr + at)\ntl.store(out + i, tl.sum(x, axis=1))",
        x_ptr=f"{kind}[16,16]",
        out="i64[16]",
    )
    whole(
        f"max_ints_{kind}",
        "tl.max",
        TILE + "x = tl.load(x_ptr + at)\ntl.store(out + i, tl.max(x, axis=1))",
        x_ptr=f"{kind}[16,16]",
        out="i64[16]",
    )
whole(
    "argmax_of_reshaped",
    "tl.argmax",
    TILE
    + """
tl.store(out, tl.argmax(tl.reshape(tl.load(x_ptr + at), (256,)), 0))
""",
    x_ptr="fp16[16,16]",
    out="i32[1]",
    differs="the place of a maximum of a reshaped tile is not the place in memory: the compiler "
    "lets the reshape put elements in any order before a reduction",
)
whole(
    "max_indices",
    "tl.max tl.min tl.argmax",
    TILE
    + """
x = tl.load(x_ptr + at)
v, k = tl.max(x, axis=1, return_indices=True)
w, l = tl.min(x, axis=1, return_indices=True)
tl.store(out + i, v + w)
tl.store(out_k + i, k * 100 + l)
""",
    x_ptr="fp16[16,16]",
    out="fp16[16]",
    out_k="i32[16]",
)
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
whole(
    "reduce_custom",
    "tl.reduce tensor.reduce",
    TILE
    + """
x = tl.load(x_ptr + at)
low, total = tl.reduce((x, at), 1, smaller_sum)
tl.store(out + i, low)
tl.store(out + 16 + i, total)
tl.store(out + 32 + i, tl.reduce(x, 0, larger))
tl.store(out + 48, x.reduce(None, larger))
""",
    x_ptr="i32[16,16]",
    out="i32[64]",
    text=COMBINE,
)
whole(
    "scan_custom",
    "tl.associative_scan tensor.associative_scan",
    TILE
    + """
x = tl.load(x_ptr + at)
a, b = tl.associative_scan((x, at), 1, affine)
tl.store(out + at, b)
tl.store(out + 256 + at, tl.associative_scan(x, 0, larger, reverse=True))
""",
    x_ptr="i32[16,16]",
    out="i32[512]",
    text=COMBINE,
)
whole(
    "map_elementwise",
    "tl.map_elementwise",
    VECTOR + "tl.store(out + i, tl.map_elementwise(clipped, tl.load(x_ptr + i)))",
    x_ptr="i32[64]<10",
    out="i32[64]",
    text=COMBINE,
)
