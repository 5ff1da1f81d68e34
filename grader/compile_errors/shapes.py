"""Types and shapes that do not fit each other: across a loop, in an operation, in tl.dot. As in `matchers`, named by rows."""

from __future__ import annotations

import ast
import re

from grader.compile_errors.matchers import Found, Words, called
from grader.compile_errors.setting import Setting, last_store, shortened, sizes_of, unparsed
from grader.labs import all_labs


def first_tile(setting: Setting, words: Words) -> Found:
    """The tile that a loop's variable should begin with, from what the loop makes of it."""
    language = {"int32": "int32", "fp16": "float16"}.get(words["dtype"], "float32")
    return Found(language=language, sizes="(BLOCK_M, BLOCK_N)" if "," in words["shape"] else "(BLOCK_M,)")


def type_before(setting: Setting, words: Words) -> Found:
    dtype = re.search(r"\b(fp|bf|int|uint)(\d+)\b", words["before"])
    old = f"tl.{ ({'fp': 'float', 'bf': 'bfloat'}.get(dtype[1], dtype[1])) }{dtype[2]}" if dtype else "..."
    return Found(old=old, new=words["dtype"])


def last_size(setting: Setting, words: Words) -> Found:
    return Found(last=str(sizes_of(words["left_type"])[-1]))


def _shapes(setting: Setting) -> list[list[int]]:
    """The shapes of two operands; empty lists where there are not two."""
    operands = setting.operands()
    return [sizes_of(setting.type_of(part)) for part in operands] if len(operands) == 2 else [[], []]


def vector_and_tile(setting: Setting, words: Words) -> Found | None:
    shapes = _shapes(setting)
    for part, shape, tile in zip(setting.operands(), shapes, reversed(shapes), strict=False):
        if len(shape) == 1 and len(tile) == 2:
            spread = "[:, None]" if shape[0] == tile[0] else "[None, :]" if shape[0] == tile[1] else ""
            longer, text = str(shape[0] > max(tile)), shortened(unparsed(part))
            return Found(vector=str(shape[0]), tile=str(tile), part=text, spread=spread, longer=longer)
    return None


def along_the_wrong_dimension(setting: Setting, words: Words) -> Found | None:
    """scale[None, :] * acc where the rows' scale was meant: turned round, it would fit the tile."""
    shapes, parts = _shapes(setting), setting.operands()
    pairs = list(zip(parts, shapes, reversed(shapes), strict=False))
    if isinstance(setting.node, ast.AugAssign):
        pairs = pairs[1:]
    for part, shape, tile in pairs:
        if not len(shape) == len(tile) == 2 or 1 not in shape or shape[::-1] not in ([tile[0], 1], [1, tile[1]]):
            continue
        text = unparsed(part)
        exchange = ("[:, None]", "[None, :]") if shape[1] == 1 else ("[None, :]", "[:, None]")
        turned = text.replace(*exchange)
        if turned != text:
            offsets, axis = _loaded_at(setting, text), "rows" if shape[1] == 1 else "columns"
            return Found(part=shortened(text), tile=str(tile), turned=shortened(turned), axis=axis, offsets=offsets)
    return None


def _loaded_at(setting: Setting, text: str) -> str:
    """Where a vector is loaded from that belongs to the axis along which `text` spreads it; "" where it may well belong to the other."""
    vector, lab = re.fullmatch(r"(\w+)\[(:, None|None, :)\]", text), all_labs().get(setting.source.lab_id)
    loaded = getattr(last_store(setting.function, vector[1]), "value", None) if vector and setting.function else None
    if vector is None or lab is None or not isinstance(loaded, ast.Call) or called(loaded) != "load" or not loaded.args:
        return ""
    used = {part.id for part in ast.walk(loaded.args[0]) if isinstance(part, ast.Name)}
    belongs = ("M",) if vector[2] == ":, None" else ("N",)
    own = any(parameter.name in used and parameter.sizes == belongs for parameter in lab.parameters)
    return shortened(unparsed(loaded.args[0])) if own else ""


def shapes_of_both(setting: Setting, words: Words) -> Found:
    a, b = _shapes(setting)
    return Found(a=str(a), b=str(b))


def matrix_product(setting: Setting, words: Words) -> Found | None:
    """x * w of tiles [M, K] and [K, N]."""
    a, b = _shapes(setting)
    tiles = all(len(shape) == 2 and 1 not in shape for shape in (a, b))
    return Found(a=str(a), b=str(b)) if words["operator"] == "*" and tiles and a[1] == b[0] else None


def two_vectors(setting: Setting, words: Words) -> Found | None:
    """Two vectors of different lengths; `given`: the parameter of a helper that is one of them, if only one is."""
    a, b = _shapes(setting)
    if len(a) != 1 or len(b) != 1:
        return None
    used = {part.id for operand in setting.operands() for part in ast.walk(operand) if isinstance(part, ast.Name)}
    arguments = setting.function.args.args if setting.function and setting.fault.callers else []
    given = [arg.arg for arg in arguments if arg.arg in used and len(sizes_of(setting.type_of(arg.arg))) == 1]
    return Found(a=str(a[0]), b=str(b[0]), given=given[0] if len(given) == 1 else "")


def accumulator(setting: Setting, words: Words) -> Found | None:
    """tl.dot(a, b, acc) whose acc is of another dtype or shape than the product that tl.dot was asked for."""
    node = setting.node
    if not isinstance(node, ast.Call) or called(node) != "dot" or len(node.args) < 2:
        return None
    keywords = {word.arg: word.value for word in node.keywords}
    acc = keywords.get("acc") or (node.args[2] if len(node.args) > 2 else None)
    if acc is None:
        return None
    kind, (a, b) = setting.type_of(acc), (setting.type_of(part) for part in node.args[:2])
    dtype, _, shape = kind.partition(" ") if "[" in kind else ("", "", "a scalar" if kind.startswith("scalar") else "")
    product, integers, asked = _product(a, b), a.startswith("int8 "), unparsed(keywords.get("out_dtype"))
    family = "exchanged" if shape and _product(b, a) == shape else "shape"
    return Found(
        name=shortened(unparsed(acc)),
        kind=family if shape and product and shape != product else f"{'int8' if integers else 'float'} {dtype}",
        dtype=dtype,
        shape=shape,
        product=product,
        sizes=f"({product[1:-1]})",
        wanted="int32" if integers else "float32",
        how="write out_dtype=tl.int32 in" if asked else "add out_dtype=tl.int32 to",
        asked=asked.removeprefix("tl.") if dtype else "",
    )


def _product(a: str, b: str) -> str:
    """The shape of a product, of its operands' types; "" where they do not fit."""
    left, right = sizes_of(a), sizes_of(b)
    return f"[{left[0]}, {right[1]}]" if len(left) == len(right) == 2 and left[1] == right[0] else ""
