"""Operations that Triton has, used for what they do not do: an index on a tile or pointer, tl.max for tl.maximum, a reshape with -1.

As in `grader.compile_errors.special`, every function takes the setting and answers with a Told, or None when the error is another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from grader.compile_errors.setting import Setting, shortened, unparsed
from grader.compile_errors.told import Told


def indexed(setting: Setting) -> Told | None:
    """ptr[rows, columns], which Triton tells as if ptr were a tile; at[at < n], which it tells as if nothing were compiled."""
    node, message = setting.node, setting.fault.message
    if not isinstance(node, ast.Subscript):
        return None
    kind, name = setting.type_of(node.value), shortened(unparsed(node.value))
    if kind.startswith("pointer to") and "tensor index" in message:
        return Told(
            setting, f"`{name}` is a pointer: it cannot be indexed with [ ]", f"add the offsets and load: tl.load({name} + offsets)"
        )
    if "[" in kind and "@triton.jit" in message:
        return Told(
            setting, f"`{name}` is a tile: only [:, None] and [None, :], which add a dimension, exist",
            "keep all of its lanes, and pass a condition as mask= of tl.load and tl.store, or choose with tl.where",
        )  # fmt: skip
    return None


def not_called(setting: Setting) -> Told | None:
    """tl.program_id * BLOCK, tl.dot(x, helper): a function of triton.language or of the student's own among the operands."""
    if "'JITFunction' object" in setting.fault.message and isinstance(setting.node, ast.Call):
        own = {part.name for part in setting.tree.body if isinstance(part, ast.FunctionDef)}
        for argument in setting.node.args:
            if isinstance(argument, ast.Name) and argument.id in own:
                name = argument.id
                return Told(setting, f"`{name}` is a function, and was not called", f"write {name}(...)", quiet=True)
    for operand in setting.operands():
        if "<function" in setting.type_of(operand):
            name = unparsed(operand)
            example = "0" if name.endswith(("program_id", "num_programs")) else "..."
            return Told(setting, f"`{name}` is a function, and was not called", f"write {name}({example})", quiet=True)
    return None


def reduced_with_another(setting: Setting) -> Told | None:
    """tl.max(a, b), meant as tl.maximum(a, b): what reduces one tile takes an axis there."""
    node = setting.node
    if not isinstance(node, ast.Call) or unparsed(node.func) not in ("tl.max", "tl.min", "tl.sum") or len(node.args) != 2:
        return None
    second = setting.type_of(node.args[1])
    if not second or second.startswith("constexpr"):
        return None
    left, right = (shortened(unparsed(part)) for part in node.args)
    instead = {"tl.max": f"tl.maximum({left}, {right})", "tl.min": f"tl.minimum({left}, {right})", "tl.sum": f"{left} + {right}"}
    called = unparsed(node.func)
    return Told(setting, f"{called} reduces one tile along an axis, and got a second tile as the axis", f"write {instead[called]}")


def outer_product(setting: Setting) -> Told | None:
    """tl.dot of a column and a row, whose product needs no tensor cores."""
    node = setting.node
    if not isinstance(node, ast.Call) or len(node.args) < 2 or "Input shapes should have" not in setting.fault.message:
        return None
    if not setting.type_of(node.args[0]).endswith(", 1]"):
        return None
    left, right = (shortened(unparsed(part)) for part in node.args[:2])
    return Told(setting, "tl.dot does not multiply a column by a row, for which it would need K = 1", f"write {left} * {right}")


def size_left_out(setting: Setting) -> Told | None:
    """A -1 among the sizes of a reshape, as in PyTorch."""
    node = setting.node
    if not isinstance(node, ast.Call) or unparsed(node.func).rpartition(".")[2] not in ("reshape", "view"):
        return None
    if not any(unparsed(part) == "-1" for part in ast.walk(node) if isinstance(part, ast.UnaryOp)):
        return None
    return Told(setting, "a reshape in a kernel works out no size: it knows no -1", "write the size, such as 8 * x.shape[0]")


def split_of_more(setting: Setting) -> Told | None:
    """tl.split of a tile whose last size is not two: Triton stops without a word."""
    node = setting.node
    if setting.fault.kind != "AssertionError" or not isinstance(node, ast.Call) or not re.search(r"\bsplit$", unparsed(node.func)):
        return None
    shape = re.search(r"\[(.*)\]$", setting.type_of(node.args[0])) if node.args else None
    last = shape[1].split(", ")[-1] if shape else ""
    if last in ("", "2"):
        return None
    return Told(
        setting, f"tl.split parts a tile along its last dimension, which must have size 2, and here has {last}",
        "bring the pair there first: tl.split(tl.reshape(x, (..., 2))), or tl.permute before it",
    )  # fmt: skip


MISUSED: tuple[Callable[[Setting], Told | None], ...] = (
    indexed, not_called, reduced_with_another, outer_product, size_left_out, split_of_more,
)  # fmt: skip
