"""Errors whose cause is not the line that the compiler names, or that take more than words: each found, or not.

Every function takes the setting and answers with a Told, or None when the error is another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from grader.teaching import names
from grader.teaching.conditions import CONDITIONS
from grader.teaching.lessons import CONSTRUCTS
from grader.teaching.misused import MISUSED
from grader.teaching.products import accumulator
from grader.teaching.setting import Setting, jitted, plain_types, shortened, unparsed
from grader.teaching.told import Told
from grader.teaching.wording import WORDING


def undefined_name(setting: Setting) -> Told | None:
    """NameError, or a module's plain constant that Triton does not read."""
    message = setting.fault.message
    plain = re.search(r"Cannot access global variable (\w+)", message)
    if plain:
        return _plain_constant(setting, plain[1])
    found = re.search(
        r"name '(\w+)' is not defined|^(\w+) is not defined|cannot access local variable '(\w+)'", message
    )
    if not found:
        return None
    name = next(group for group in found.groups() if group)
    uses = [
        part for part in ast.walk(setting.node or setting.tree)
        if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
    ]  # fmt: skip
    at = setting.at(uses[0] if uses else None)
    cause, step = names.undefined(name, setting.tree, at.function, at.fault.line, setting.fault.scope)
    return Told(at, cause, step, quiet=True)


def _plain_constant(setting: Setting, name: str) -> Told:
    made = next(
        (
            part
            for part in setting.tree.body
            if isinstance(part, ast.Assign | ast.AnnAssign)
            and any(isinstance(t, ast.Name) and t.id == name for t in _targets(part))
        ),
        None,
    )
    value = unparsed(made.value) if made is not None else "..."
    cause = f"`{name}` is an ordinary variable of the file; a kernel reads only constexpr ones"
    if isinstance(made, ast.AnnAssign):
        cause = f"the annotation does not make `{name}` a constexpr: a kernel reads only variables of the file that hold one"
    return Told(setting, cause, f"write {name} = tl.constexpr({shortened(value)}) where it is defined", quiet=True)


def missing_attribute(setting: Setting) -> Told | None:
    """A function that triton.language lacks, or a method that a tensor lacks."""
    if listed := re.search(
        r"ValueError: '(append|extend|insert|pop)' is not in list", f"{setting.fault.kind}: {setting.fault.message}"
    ):
        return _no_list(setting, listed[1])
    found = re.search(r"(?:module '([\w.]+)'|'(\w+)' object) has no attribute '?(\w+)'?", setting.fault.message)
    if not found or setting.fault.kind != "AttributeError" or found[3] in ("func", "values", "to_ir", "__name__"):
        return None
    if found[3].startswith("__"):
        return None
    holders = [
        part
        for part in ast.walk(setting.node or setting.tree)
        if isinstance(part, ast.Attribute) and part.attr == found[3]
    ]
    if not holders:
        return None
    holder = holders[0]
    if found[2] == "tuple":
        return _no_list(setting, found[3])
    owner = "tl" if (found[1] or "").startswith("triton.language") else shortened(unparsed(holder.value))
    cause, step = names.attribute(owner, found[3])
    return Told(setting.at(holder), cause, step, quiet=True)


def _no_list(setting: Setting, method: str) -> Told:
    cause = f"a kernel has no lists: there is no .{method}"
    return Told(setting, cause, "add tiles up in one variable, such as acc += tl.dot(x, w)", quiet=True)


def loop_carried(setting: Setting) -> Told | None:
    """A variable whose type at the end of a loop's body is another than before the loop."""
    message = plain_types(setting.fault.message)
    found = re.search(
        r"Loop-carried variable (\w+) has initial type (.+?) but is re-assigned to (.+?) in loop", message
    )
    if not found:
        return None
    name, before, after = found[1], _scalar(found[2]), _scalar(found[3])
    last = _last_store(setting.node, name)
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


def _last_store(node: ast.AST | None, name: str) -> ast.AST | None:
    stores = [
        part
        for part in ast.walk(node or ast.Module([], []))
        if isinstance(part, ast.Assign | ast.AugAssign | ast.AnnAssign)
        and any(isinstance(t, ast.Name) and t.id == name for target in _targets(part) for t in ast.walk(target))
    ]
    return max(stores, key=lambda part: part.lineno, default=None)


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def branches_differ(setting: Setting) -> Told | None:
    """A variable that an `if` gives another type than it had, or than the other branch gives it."""
    message = plain_types(setting.fault.message)
    found = re.search(
        r"initial value for `(\w+)` is of type (.+?), but the (then|else) block redefines it as (.+)", message
    )
    if found:
        body = getattr(setting.node, "body" if found[3] == "then" else "orelse", [])
        last = _last_store(ast.Module(body, []), found[1])
        cause = (
            f"`{found[1]}` is {_scalar(found[2])} before this `if` and {_scalar(found[4])} in it; its type must stay"
        )
        return Told(
            setting.at(last), cause, "convert it before or after the `if`, or use another name inside", quiet=True
        )
    found = re.search(r"Mismatched type for (\w+) between then block \((.+?)\) and else block \((.+?)\)", message)
    if found:
        last = _last_store(ast.Module(getattr(setting.node, "orelse", []), []), found[1])
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
    if all(len(shape) == 1 for shape in shapes):
        cause = f"two vectors of {shapes[0][0]} and {shapes[1][0]} elements do not fit"
        if any("axis=" in unparsed(part) for part, _ in kinds):
            return Told(setting, cause, "check the axis: axis=1 leaves one value for each row, axis=0 one for each column")
        return Told(setting, cause, "make a tile of them: rows with [:, None], columns with [None, :]")
    return None


def _vector_meets_tile(setting: Setting, part: ast.expr, shape: list[int], tile: list[int]) -> Told | None:
    if len(shape) != 1 or len(tile) != 2:
        return None
    where = "[:, None]" if shape[0] == tile[0] else "[None, :]" if shape[0] == tile[1] else ""
    cause = f"a vector of {shape[0]} meets a tile {tile}: their shapes do not fit"
    spread = f"write {shortened(unparsed(part))}{where}"
    return Told(setting, cause, spread if where else "load the vector with the offsets of the tile's dimension")


def _along_the_wrong_dimension(setting: Setting, text: str, shape: list[int], tile: list[int]) -> Told | None:
    if not len(shape) == len(tile) == 2 or 1 not in shape or shape[::-1] not in ([tile[0], 1], [1, tile[1]]):
        return None
    turned = text.replace("[:, None]", "[None, :]") if shape[1] == 1 else text.replace("[None, :]", "[:, None]")
    if turned == text:
        return None
    cause = f"{shortened(text)} runs along the wrong dimension of the tile {tile}"
    return Told(setting, cause, f"write {shortened(turned)}")


def _shape(kind: str) -> list[int]:
    found = re.search(r"\[([\d, ]+)\]$", kind)
    return [int(size) for size in found[1].split(",")] if found else []


def returned_nothing(setting: Setting) -> Told | None:
    """A helper without a `return`, whose result is used."""
    if not re.search(r"cannot convert None|NoneType|'void'|cannot cast void", setting.fault.message):
        return None
    silent = {
        part.name: part
        for part in jitted(setting.tree)
        if not any(isinstance(inner, ast.Return) and inner.value is not None for inner in ast.walk(part))
    }
    calls = [
        part
        for part in ast.walk(setting.function or setting.tree)
        if isinstance(part, ast.Call)
        and unparsed(part.func) in silent
        and part.lineno <= (setting.fault.line or 1 << 30)
    ]
    if not calls:
        return None
    call = max(calls, key=lambda part: part.lineno)
    name = unparsed(call.func)
    last = silent[name].body[-1]
    result = last.targets[0].id if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name) else "..."
    return Told(
        setting.at(call),
        f"`{name}` returns nothing, but its result is used",
        f"end {name} with return {result}",
        quiet=True,
    )


def construct(setting: Setting) -> Told | None:
    """Syntax that Triton does not compile."""
    found = re.search(r"unsupported AST node type: (\w+)", setting.fault.message)
    if not found:
        return None
    cause, step = CONSTRUCTS.get(
        found[1],
        (f"Triton does not compile this kind of Python ({found[1]})", "write it with assignments, if, for and while"),
    )
    return Told(setting, cause, step, quiet=True)


def nested_function(setting: Setting) -> Told | None:
    """A function inside a kernel; some versions of Triton stop without words."""
    for function in jitted(setting.tree):
        inner = next(
            (part for part in ast.walk(function) if isinstance(part, ast.FunctionDef) and part is not function), None
        )
        lines = range(inner.lineno, (inner.end_lineno or inner.lineno) + 1) if inner else ()
        if inner and (setting.fault.line in lines or setting.fault.kind == "StopIteration"):
            cause = f"`{inner.name}` is defined inside the kernel, which Triton does not compile"
            return Told(
                setting.at(inner), cause, "move it to the top of the file, with @triton.jit above it", quiet=True
            )
    return None


def plain_function(setting: Setting) -> Told | None:
    """A helper without @triton.jit."""
    found = re.search(r"Unsupported function referenced: <function (\w+)", setting.fault.message)
    defined = {part.name: part for part in setting.tree.body if isinstance(part, ast.FunctionDef)}
    if not found or found[1] not in defined:
        return None
    return Told(
        setting.at(_head(defined[found[1]])),
        f"the kernel calls `{found[1]}`, which is not under @triton.jit",
        f"put @triton.jit above def {found[1]}",
        quiet=True,
    )


def _head(function: ast.FunctionDef) -> ast.AST:
    end = function.col_offset + len(f"def {function.name}".encode())
    return ast.Pass(
        lineno=function.lineno, col_offset=function.col_offset, end_lineno=function.lineno, end_col_offset=end
    )


def found_by_looking(setting: Setting) -> Told | None:
    """Errors that Triton tells without a place, found in the text."""
    message = setting.fault.message
    bodies = [part for function in jitted(setting.tree) for part in ast.walk(function)]
    if re.search(r"multiple assignment", message):
        double = next((part for part in bodies if isinstance(part, ast.Assign) and len(part.targets) > 1), None)
        return Told(setting.at(double), "Triton has no a = b = value", "write two assignments", quiet=True)
    if re.search(r"error encountered during parsing|'scf\.if' op operand #0", message):
        choices = [part for part in bodies if isinstance(part, ast.IfExp)]
        node = min(choices, key=lambda part: abs(part.lineno - (setting.fault.line or part.lineno)), default=None)
        if node:
            cause = "`a if condition else b` needs a condition that is one number, not a block"
            return Told(setting.at(node), cause, "write tl.where(condition, a, b)", quiet=True)
    return None


def return_in_loop(setting: Setting) -> Told | None:
    """A return inside a loop, which the compiler reports at the `if` around it."""
    if "`return` statements inside" not in setting.fault.message:
        return None
    inner = [part for part in ast.walk(setting.node or setting.tree) if isinstance(part, ast.Return)]
    return Told(
        setting.at(inner[0] if inner else None),
        "a kernel cannot return from inside a loop",
        "put the condition into the bound of the loop or into masks, and return after it",
        quiet=True,
    )


def constexpr_changed(setting: Setting) -> Told | None:
    """A constexpr, such as a tile size, that a loop or branch assigns to."""
    message = setting.fault.message
    found = re.search(
        r"cannot reassign constexpr (\w+)|[Ll]oop carried variable (\w+) changed type|(\w+) is already defined", message
    )
    if not found:
        return None
    name = next(group for group in found.groups() if group)
    last = _last_store(setting.node, name)
    own = setting.function and any(argument.arg == name for argument in setting.function.args.args)
    what = "a constexpr parameter" if own else "a number known while compiling, or of another kind"
    cause = f"`{name}` is {what} before the loop, and this line makes it something else"
    return Told(
        setting.at(last), cause, "use another variable, with a tensor as its first value, for what changes", quiet=True
    )


def config_keyword(setting: Setting) -> Told | None:
    """triton.Config(num_warp=4) or triton.Config(BLOCK_M=64)."""
    found = re.search(r"Config\.__init__\(\) got an unexpected keyword argument '(\w+)'", setting.fault.message)
    if not found:
        return None
    words = [
        part
        for part in ast.walk(setting.node or setting.tree)
        if isinstance(part, ast.keyword) and part.arg == found[1]
    ]
    near = names.suggest(found[1], ("num_warps", "num_stages", "maxnreg"))
    step = (
        f"did you mean `{near}`?"
        if near
        else "put sizes into the dictionary: triton.Config({'BLOCK_M': 64}, num_warps=4)"
    )
    return Told(
        setting.at(words[0] if words else None), f"triton.Config has no argument `{found[1]}`", step, quiet=True
    )


def misspelt_keyword(setting: Setting) -> Told | None:
    """A call with a keyword that its function does not have; Triton may complain of the argument that it misses."""
    node = setting.node
    if not isinstance(node, ast.Call) or "argument" not in setting.fault.message:
        return None
    called = unparsed(node.func)
    own = names.parameters_of(called) if called.startswith(("tl.", "triton.language.")) else []
    if called in ("triton.autotune", "autotune"):
        own = ["configs", "key", "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook"]
    word = next((word for word in node.keywords if own and word.arg and word.arg not in own), None)
    if word is None or word.arg is None:
        return None
    near = names.suggest(word.arg, own) or ("axis" if word.arg == "dim" and "axis" in own else None)
    step = f"did you mean `{near}`?" if near else "remove it, or pass the value by position"
    if re.match(r"trans", word.arg) and called.endswith("dot"):
        step = "turn the operand round: tl.trans(...) of it"
    cause = f"{called} has no argument `{word.arg}`: {called}({', '.join(own[:6])})"
    return Told(setting.at(word), cause, step, quiet=True)


def caching_twice(setting: Setting) -> Told | None:
    """A load or store with a cache modifier and an eviction policy that no instruction has together; the assembler names no line."""
    message = setting.fault.message
    if "ptxas" not in message or not re.search(r"evict\w+' cannot be combined|cannot be combined with modifier '\.(L\d::)?evict", message):
        return None
    both = {"cache_modifier", "eviction_policy"}
    call = next((
        part for part in ast.walk(setting.tree)
        if isinstance(part, ast.Call) and both <= {word.arg for word in part.keywords}
    ), None)  # fmt: skip
    if call is None:
        return None
    cause = f"{unparsed(call.func)} asks for a cache_modifier and an eviction_policy, which no instruction of the GPU has together"
    return Told(setting.at(call), cause, "leave one of the two out", quiet=True)


SPECIAL: tuple[Callable[[Setting], Told | None], ...] = (
    undefined_name, nested_function, plain_function, loop_carried, branches_differ, shapes_differ, returned_nothing,
    construct, *MISUSED, found_by_looking, missing_attribute, return_in_loop, constexpr_changed, config_keyword,
    misspelt_keyword, value_before_pointers, accumulator, caching_twice, *WORDING, *CONDITIONS,
)  # fmt: skip
