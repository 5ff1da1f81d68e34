"""Why tl.dot refuses an accumulator: Triton's assertion about it has no words of its own."""

from __future__ import annotations

import ast
import re

from grader.compile_errors.setting import Setting, shortened, unparsed
from grader.compile_errors.told import Told


def accumulator(setting: Setting) -> Told | None:
    """tl.dot(a, b, acc) whose acc is of another dtype or shape than the product that tl.dot was asked for."""
    node = setting.node
    bare = setting.fault.kind == "AssertionError" and not setting.fault.message
    if not isinstance(node, ast.Call) or not (bare or "accumulator" in setting.fault.message):
        return None
    words = {word.arg: word.value for word in node.keywords}
    acc = words.get("acc") or (node.args[2] if len(node.args) > 2 else None)
    if acc is None or len(node.args) < 2 or unparsed(node.func).rpartition(".")[2] != "dot":
        return None
    (dtype, shape), product = _type(setting, acc), _product(setting, node)
    name, integers = shortened(unparsed(acc)), _type(setting, node.args[0])[0] == "int8"
    if product and setting.type_of(acc).startswith("scalar"):
        shape = "one number"
    if shape and product and shape != product:
        cause = f"the accumulator `{name}` is {shape}, the product {product}"
        if _product(setting, node, exchanged=True) == shape:
            a, b = (shortened(unparsed(part)) for part in node.args[:2])
            return Told(setting, cause, f"exchange the operands: {unparsed(node.func)}({b}, {a}, {name})")
        return Told(setting, cause, f"make it tl.zeros({_sizes(product)}, dtype=tl.{'int32' if integers else 'float32'})")
    return _of_another_dtype(setting, name, dtype, words.get("out_dtype"), integers=integers) if dtype else None


def _of_another_dtype(setting: Setting, name: str, dtype: str, asked: ast.expr | None, *, integers: bool) -> Told | None:
    """An accumulator of a dtype that the product has not. asked: the call's out_dtype. integers: the operands are int8."""
    if integers and dtype == "int32":
        cause = "with an accumulator tl.dot gives fp32 unless it is told otherwise, and this one is int32"
        how = "write out_dtype=tl.int32 in" if asked else "add out_dtype=tl.int32 to"
        return Told(setting, cause, f"{how} the call, or write {name} += tl.dot(a, b)")
    if integers:
        cause = f"the accumulator `{name}` is {dtype}, the product of int8 operands int32"
        return Told(setting, cause, "begin with tl.zeros(..., dtype=tl.int32) and convert after the loop")
    if dtype != "fp32":
        cause = f"the accumulator `{name}` is {dtype}, the product fp32"
        return Told(setting, cause, "begin with tl.zeros(..., dtype=tl.float32) and convert after the loop")
    if asked:
        wanted = unparsed(asked).removeprefix("tl.")
        return Told(setting, f"the accumulator `{name}` is {dtype}, and out_dtype asks for {wanted}", "leave out_dtype out")
    return None


def _type(setting: Setting, node: ast.expr) -> tuple[str, str]:
    """("int8", "[16, 32]") of an expression whose type the compiler told."""
    found = re.fullmatch(r"(\w+) (\[[\d, ]+\])", setting.type_of(node))
    return (found[1], found[2]) if found else ("", "")


def _product(setting: Setting, node: ast.Call, *, exchanged: bool = False) -> str:
    """The shape of a product, of its operands' types; exchanged: with the right one on the left. "" where they do not fit."""
    left, right = (re.findall(r"\d+", _type(setting, part)[1]) for part in node.args[:2])
    if exchanged:
        left, right = right, left
    return f"[{left[0]}, {right[1]}]" if len(left) == len(right) == 2 and left[1] == right[0] else ""


def _sizes(shape: str) -> str:
    return f"({shape[1:-1]})"
