"""Types or shapes that do not fit each other: across a loop, between branches, in an operation, in the arguments of a store.

Every function takes the setting and answers with a Told, or None when the error is another.
"""

from __future__ import annotations

import ast
import re

from grader.compile_errors.setting import Setting, last_store, plain_types, shortened, unparsed
from grader.compile_errors.told import Told
from grader.labs import all_labs


def loop_carried(setting: Setting) -> Told | None:
    """A variable whose type at the end of a loop's body is another than before the loop."""
    message = plain_types(setting.fault.message)
    found = re.search(
        r"Loop-carried variable (\w+) has initial type (.+?) but is re-assigned to (.+?) in loop", message
    )
    if not found:
        return None
    name, before, after = found[1], _scalar(found[2]), _scalar(found[3])
    last = last_store(setting.node, name)
    cause = f"`{name}` is {before} before the loop, but {after} after this line; a loop must keep its type"
    if "[" in after and "[" not in before:
        dtype = after.split()[0]
        tile = {"int32": "tl.int32", "fp16": "tl.float16"}.get(dtype, "tl.float32")
        sizes = "(BLOCK_M, BLOCK_N)" if len(_shape(after)) > 1 else "(BLOCK_M,)"
        step = f"begin with a tile: {name} = tl.zeros({sizes}, dtype={tile})"
    elif "[" in after and before.partition("[")[2] != after.partition("[")[2]:
        step = f"give `{name}` the shape [{after.partition('[')[2]} before the loop"
    else:
        step = (
            f"make `{name}` {after.split()[0] if ' ' in after else after} before the loop, or convert here with "
            f".to({_language(before)})"
        )
    return Told(setting.at(last), cause, step, quiet=True)


def _scalar(kind: str) -> str:
    return kind if "[" in kind or kind.startswith(("scalar", "pointer")) else f"one number ({kind})"


def _language(kind: str) -> str:
    dtype = re.search(r"\b(fp|bf|int|uint)(\d+)\b", kind)
    if not dtype:
        return "..."
    return f"tl.{ {'fp': 'float', 'bf': 'bfloat'}.get(dtype[1], dtype[1]) }{dtype[2]}"


def branches_differ(setting: Setting) -> Told | None:
    """A variable that an `if` gives another type than it had, or than the other branch gives it."""
    message = plain_types(setting.fault.message)
    found = re.search(
        r"initial value for `(\w+)` is of type (.+?), but the (then|else) block redefines it as (.+)", message
    )
    if found:
        body = getattr(setting.node, "body" if found[3] == "then" else "orelse", [])
        last = last_store(ast.Module(body, []), found[1])
        cause = (
            f"`{found[1]}` is {_scalar(found[2])} before this `if` and {_scalar(found[4])} in it; its type must stay"
        )
        return Told(
            setting.at(last), cause, "convert it before or after the `if`, or use another name inside", quiet=True
        )
    found = re.search(r"Mismatched type for (\w+) between then block \((.+?)\) and else block \((.+?)\)", message)
    if found:
        last = last_store(ast.Module(getattr(setting.node, "orelse", []), []), found[1])
        cause = (
            f"`{found[1]}` is {_scalar(found[2])} in the `if` and {_scalar(found[3])} in the `else`; both must agree"
        )
        return Told(setting.at(last), cause, "convert one of them with .to(...)", quiet=True)
    return None


def value_before_pointers(setting: Setting) -> Told | None:
    """tl.store, or an atomic, whose first two arguments are exchanged."""
    node, operands = setting.node, setting.operands()
    refused = re.search(r"Unsupported ptr type|Pointer argument of \w+ instruction is", setting.fault.message)
    if not refused or not isinstance(node, ast.Call) or len(operands) < 2:
        return None
    called = unparsed(node.func)
    if called.endswith(".load") or not setting.type_of(operands[1]).startswith("pointer"):
        return None
    value, pointers = (shortened(unparsed(part)) for part in operands[:2])
    return Told(setting, f"{called} takes the pointers first and then the value", f"exchange them: {called}({pointers}, {value}, ...)")


def shapes_differ(setting: Setting) -> Told | None:
    """Operands, or a mask and its pointers, whose shapes do not fit."""
    message = setting.fault.message
    found = re.search(r"incompatible dimensions at index (\d+): (\d+) and (\d+)", message)
    if not found:
        return None
    at, a, b = int(found[1]), found[2], found[3]
    operands = setting.operands()
    kinds = [(part, setting.type_of(part)) for part in operands]
    node = setting.node
    if isinstance(node, ast.Call) and unparsed(node.func).rpartition(".")[2] in ("load", "store"):
        what = "the value or the mask" if unparsed(node.func).endswith("store") else "the mask (or other)"
        cause = f"{what} has another shape than the pointers: {a} and {b} in dimension {at}"
        return Told(
            setting, cause, "build value and mask from the offsets of the pointers: rows [:, None], columns [None, :]"
        )
    if len(kinds) == 2 and (told := _two_meet(setting, kinds)):
        return told
    cause = f"the shapes do not fit: {a} and {b} elements in dimension {at}"
    return Told(setting, cause, "check which offsets each tile was loaded with; rows take [:, None], columns [None, :]")


def _two_meet(setting: Setting, kinds: list[tuple[ast.expr, str]]) -> Told | None:
    """Two operands and their types, told from the surest to the vaguest."""
    node = setting.node
    pairs = list(zip(kinds, reversed(kinds), strict=True))
    for (part, kind), (_, other) in pairs:
        if told := _vector_meets_tile(setting, part, _shape(kind), _shape(other)):
            return told
    shapes = [_shape(kind) for _, kind in kinds]
    if isinstance(node, ast.AugAssign) and all(shapes):
        if told := _along_the_wrong_dimension(setting, unparsed(node.value), shapes[1], shapes[0]):
            return told
        name = unparsed(node.target)
        what = "what is added to it" if isinstance(node.op, ast.Add) else "the other side"
        cause = f"`{name}` has the shape {shapes[0]}, {what} {shapes[1]}"
        return Told(
            setting, cause, f"give both one shape: look at the tl.zeros of `{name}` and at the offsets of the tiles"
        )
    for (part, kind), (_, other) in pairs:
        if told := _along_the_wrong_dimension(setting, unparsed(part), _shape(kind), _shape(other)):
            return told
    tiles = all(len(shape) == 2 and 1 not in shape for shape in shapes)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and tiles and shapes[0][1] == shapes[1][0]:
        left, right = (shortened(unparsed(part)) for part, _ in kinds)
        cause = f"* multiplies element by element, and tiles {shapes[0]} and {shapes[1]} have no shape in common"
        return Told(setting, cause, f"for their matrix product write tl.dot({left}, {right})")
    if all(len(shape) == 1 for shape in shapes):
        cause = f"two vectors of {shapes[0][0]} and {shapes[1][0]} elements do not fit"
        if any("axis=" in unparsed(part) for part, _ in kinds):
            return Told(setting, cause, "check the axis: axis=1 leaves one value for each row, axis=0 one for each column")
        step = "make a tile of them: rows with [:, None], columns with [None, :]"
        if given := _vector_given(setting, [part for part, _ in kinds]):
            step = f"`{given}` is given as a vector: if it is to be one number, pass one number; else {step}"
        return Told(setting, cause, step)
    return None


def _vector_given(setting: Setting, operands: list[ast.expr]) -> str | None:
    """A parameter of a helper that is a vector, in operands that differ in length; None if it is not the only one."""
    if setting.function is None or not setting.fault.callers:
        return None
    parameters = {argument.arg for argument in setting.function.args.args}
    names = {
        part.id for operand in operands for part in ast.walk(operand) if isinstance(part, ast.Name) and part.id in parameters
    }
    vectors = [name for name in sorted(names) if len(_shape(setting.type_of(name))) == 1]
    return vectors[0] if len(vectors) == 1 else None


def _vector_meets_tile(setting: Setting, part: ast.expr, shape: list[int], tile: list[int]) -> Told | None:
    if len(shape) != 1 or len(tile) != 2:
        return None
    where = "[:, None]" if shape[0] == tile[0] else "[None, :]" if shape[0] == tile[1] else ""
    cause = f"a vector of {shape[0]} meets a tile {tile}: their shapes do not fit"
    if where:
        return Told(setting, cause, f"write {shortened(unparsed(part))}{where}")
    if shape[0] > max(tile):
        step = "to load a tile, give it two ranges: its rows with [:, None] and its columns with [None, :]"
        return Told(setting, cause, step)
    return Told(setting, cause, "load the vector with the offsets of the tile's dimension")


def _along_the_wrong_dimension(setting: Setting, text: str, shape: list[int], tile: list[int]) -> Told | None:
    if not len(shape) == len(tile) == 2 or 1 not in shape or shape[::-1] not in ([tile[0], 1], [1, tile[1]]):
        return None
    turned = text.replace("[:, None]", "[None, :]") if shape[1] == 1 else text.replace("[None, :]", "[:, None]")
    if turned == text:
        return None
    cause = f"{shortened(text)} runs along the wrong dimension of the tile {tile}"
    offsets = _loaded_at(setting, text)
    if offsets is None:
        return Told(setting, cause, f"write {shortened(turned)}")
    axis = "rows" if shape[1] == 1 else "columns"
    return Told(setting, cause, f"load it with the offsets of the {axis} (it is loaded at {offsets}), or write {shortened(turned)}")


def _loaded_at(setting: Setting, text: str) -> str | None:
    """Where a vector is loaded from that belongs to the axis along which `text` spreads it; None where it may well belong to the other."""
    vector, lab = re.fullmatch(r"(\w+)\[(:, None|None, :)\]", text), all_labs().get(setting.source.lab_id)
    if vector is None or lab is None or setting.function is None:
        return None
    loaded = getattr(last_store(setting.function, vector[1]), "value", None)
    if not isinstance(loaded, ast.Call) or not unparsed(loaded.func).endswith(".load") or not loaded.args:
        return None
    names = {part.id for part in ast.walk(loaded.args[0]) if isinstance(part, ast.Name)}
    belongs = ("M",) if vector[2] == ":, None" else ("N",)
    return shortened(unparsed(loaded.args[0])) if any(p.name in names and p.sizes == belongs for p in lab.parameters) else None


def _shape(kind: str) -> list[int]:
    found = re.search(r"\[([\d, ]+)\]$", kind)
    return [int(size) for size in found[1].split(",")] if found else []
