"""What `and`, `or`, `not`, `while` and sizes refuse: numbers where conditions belong, blocks where one number does, None, fractions."""

from __future__ import annotations

import ast
import re

from grader.compile_errors.setting import Setting, shortened, unparsed
from grader.compile_errors.told import Told

NUMBER = re.compile(r"(fp|bf|u?int)(8|16|32|64)\b")


def joined_numbers(setting: Setting) -> Told | None:
    """`a and b`, `not a` of numbers: Triton takes them for conditions (int1), which they are not."""
    node = setting.node
    if "Cannot bitcast data-type of size" not in setting.fault.message:
        return None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        text = shortened(unparsed(node.operand))
        return Told(setting, f"`not` turns a condition round, and {text} holds numbers", f"write {text} == 0")
    if not isinstance(node, ast.BoolOp):
        return None
    word = "and" if isinstance(node.op, ast.And) else "or"
    parts = [f"({unparsed(part)}{'' if isinstance(part, ast.Compare) else ' != 0'})" for part in node.values]
    sign = "&" if word == "and" else "|"
    cause = f"`{word}` joins conditions, and here it joins numbers"
    return Told(setting, cause, f"compare first: {shortened(f' {sign} '.join(parts))}; for the bits of whole numbers write {sign}")


def while_on_a_block(setting: Setting) -> Told | None:
    """while offs < n, whose condition is one for each element."""
    if "'scf.condition' op operand #0 must be 1-bit" not in setting.fault.message:
        return None
    loops = [part for part in ast.walk(setting.tree) if isinstance(part, ast.While) and part.lineno == setting.fault.line]
    test = loops[0].test if loops else None
    if "tensor<" not in setting.fault.message:
        text = shortened(unparsed(test)) or "k"
        cause = f"the condition of this `while` is a number{_tested(test)}, and a kernel takes no number for true or false"
        return Told(setting.at(test), cause, f"compare it, such as while {text} > 0:", quiet=True)
    cause = f"the condition of this `while` is a whole block of conditions, one for each element{_tested(test)}"
    return Told(setting.at(test), cause, "count with one number, such as while k < K:, and mask the elements beyond the end", quiet=True)


def _tested(test: ast.expr | None) -> str:
    return f": `{shortened(unparsed(test))}`" if test is not None else ""


def none_for_a_tile(setting: Setting) -> Told | None:
    """None on one side of `a if condition else b`, or passed where a tile belongs."""
    given = setting.operands() if isinstance(setting.node, ast.Call) else []
    none = any(isinstance(part, ast.Constant) and part.value is None for part in given)
    if not re.search(r"cannot convert None of type", setting.fault.message) and not (none and "'NoneType' object" in setting.fault.message):
        return None
    if isinstance(setting.node, ast.IfExp):
        cause = "one side of this `if else` is None, and a condition that is known only at run time needs two values of one type"
        return Told(setting, cause, "give both sides a value of the same shape and dtype", quiet=True)
    return Told(setting, "None stands where a number or a tile is expected", "write the value that is meant")


def fractional_size(setting: Setting) -> Told | None:
    """tl.arange(0, BLOCK_K / 2), or a BLOCK_K that a config sets to 32.0 or to "32"."""
    node = setting.node
    if not isinstance(node, ast.Call) or "arange's arguments must be of type" not in setting.fault.message:
        return None
    for part in node.args:
        text = unparsed(part)
        value = setting.type_of(part).removeprefix("constexpr ") if not isinstance(part, ast.Constant) else repr(part.value)
        if re.fullmatch(r"-?\d+", value) or not re.fullmatch(r"-?\d[\d.e+-]*|'.*'", value):
            continue
        found = f"found {value}" if isinstance(part, ast.Constant) else f"`{shortened(text)}` is {value}"
        if value.startswith("'"):
            step = "write the number without quotes, in triton.Config if it stands there"
            return Told(setting, f"tl.arange takes whole numbers, and {found}, a text", step, quiet=True)
        step = f"write {shortened(text.replace(' / ', ' // '))}" if " / " in text else "write a whole number, with // where it is divided"
        return Told(setting, f"tl.arange takes whole numbers, and {found}, a float", step, quiet=True)
    return None


def dtype_for_an_accumulator(setting: Setting) -> Told | None:
    """tl.dot(a, b, tl.int32), or a shape or number there."""
    node = setting.node
    found = re.search(r"'(dtype|tuple|int|float)' object has no attribute '?shape", setting.fault.message)
    if not found or not isinstance(node, ast.Call) or len(node.args) < 3 or not unparsed(node.func).endswith("dot"):
        return None
    called, third = unparsed(node.func), unparsed(node.args[2])
    a, b = (shortened(unparsed(part)) for part in node.args[:2])
    cause = f"the third argument of {called} is the accumulator, found {'the dtype ' if found[1] == 'dtype' else ''}{third}"
    step = f"write {called}({a}, {b}, out_dtype={third})" if found[1] == "dtype" else f"leave it out: write acc += {called}({a}, {b})"
    return Told(setting, cause, step, quiet=True)


def python_mathematics(setting: Setting) -> Told | None:
    """math.ceil(K / BLOCK_K), math.exp(x) of what is known only at run time."""
    node = setting.node
    if not isinstance(node, ast.Call) or "must be real number, not tensor" not in setting.fault.message:
        return None
    called = unparsed(node.func)
    division = node.args[0] if node.args and isinstance(node.args[0], ast.BinOp) and isinstance(node.args[0].op, ast.Div) else None
    if called.endswith("ceil") and division is not None:
        step = f"write tl.cdiv({unparsed(division.left)}, {unparsed(division.right)})"
    elif called.endswith("floor") and division is not None:
        step = f"write {unparsed(division.left)} // {unparsed(division.right)}"
    else:
        step = f"write tl.{called.rpartition('.')[2]}({', '.join(unparsed(part) for part in node.args)})"
    cause = f"`{called}` is Python's: it takes numbers that are known while compiling, and not what a kernel computes"
    return Told(setting, cause, shortened(step), quiet=True)


CONDITIONS = (
    joined_numbers, while_on_a_block, none_for_a_tile, fractional_size, dtype_for_an_accumulator, python_mathematics,
)  # fmt: skip
