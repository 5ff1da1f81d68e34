"""Errors whose words come from Python or from Triton's inside: found in the text, and told as what they are."""

from __future__ import annotations

import ast
import re

from grader.compile_errors.setting import Setting, jitted, shortened, unparsed
from grader.compile_errors.told import Told


def block_pointer_in_while(setting: Setting) -> Told | None:
    """A block pointer that a while loop carries, which Triton's passes cannot rewrite."""
    if "tensor pointer usages" not in setting.fault.message:
        return None
    loops = [part for function in jitted(setting.tree) for part in ast.walk(function) if isinstance(part, ast.While)]
    inner = [part for loop in loops for part in ast.walk(loop) if _called(part) == "advance"]
    cause = "Triton moves block pointers in `for` loops only, and this one moves in a `while`"
    step = "write the loop as for k in range(0, K, BLOCK_K):, or make a new block pointer in each turn"
    return Told(setting.at(inner[0] if inner else loops[0] if loops else None), cause, step, quiet=True)


def indexed_function(setting: Setting) -> Told | None:
    """tl.program_id[0]."""
    if not re.search(r"'(function|builtin_function_or_method|JITFunction)' object is not subscriptable", setting.fault.message):
        return None
    found = setting.node if isinstance(setting.node, ast.Subscript) else None
    if found is None:
        return None
    name = shortened(unparsed(found.value))
    cause, step = f"`{name}` is a function: it is called with ( ), not [ ]", f"write {name}({unparsed(found.slice)})"
    return Told(setting, cause, step, quiet=True)


def called_attribute(setting: Setting) -> Told | None:
    """w.T(): the brackets of a method behind what is none."""
    node = setting.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in ("T", "shape", "dtype"):
        return None
    name = shortened(unparsed(node.func))
    return Told(setting, f"`{name}` is no function", f"write {name} without the brackets", quiet=True)


def recursion(setting: Setting) -> Told | None:
    """A helper that calls itself; Triton stops at the name of the function that it has not finished, or deep inside it without a word."""
    called = _called(setting.node)
    function = setting.function
    if function is None or called != function.name:
        return None
    inside = any(function.lineno <= line <= (function.end_lineno or 0) for line in setting.fault.callers)
    if not re.search(r"KeyError|Recursion", setting.fault.kind) and not (inside and not setting.fault.message):
        return None
    returning = [part for part in function.body if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Return) and not part.orelse]
    if inside and returning:
        cause = f"`{called}` calls itself without end: Triton also compiles what follows an `if` that returns"
        step = "put that under else:, with a condition on tl.constexpr parameters, or write a loop instead"
        return Told(setting, cause, step, quiet=True)
    return Told(setting, f"`{called}` calls itself, which Triton does not compile", "write a loop instead", quiet=True)


def unequal_unpacking(setting: Setting) -> Told | None:
    """a, b, c = helper(): more or fewer names than values."""
    node = setting.node
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple) or "index out of range" not in setting.fault.message:
        return None
    names = len(node.targets[0].elts)
    called = _called(node.value)
    helper = next((part for part in jitted(setting.tree) if part.name == called), None)
    returned = [part.value for part in ast.walk(helper) if isinstance(part, ast.Return)] if helper else [node.value]
    counts = [len(value.elts) for value in returned if isinstance(value, ast.Tuple)]
    found = f"{counts[0]} value(s)" if counts else "fewer values"
    cause = f"{names} names on the left, {found} on the right"
    return Told(setting, cause, f"unpack as many names as {called or 'the right side'} has values", quiet=True)


def endless_while(setting: Setting) -> Told | None:
    """while True, whose condition is no value of the kernel."""
    node = setting.node
    if not isinstance(node, ast.While) or not isinstance(node.test, ast.Constant):
        return None
    cause = f"`while {unparsed(node.test)}` can never end: a kernel has no break"
    return Told(setting, cause, "put the condition on which it goes on there, such as while i < end:", quiet=True)


def loop_else(setting: Setting) -> Told | None:
    """for ... else."""
    if "what to do with else after" not in setting.fault.message:
        return None
    last = getattr(setting.node, "orelse", None)
    return Told(setting.at(last[0] if last else None), "a loop has no else in a kernel", "put these lines after the loop", quiet=True)


def decorators_swapped(setting: Setting) -> Told | None:
    """@triton.jit above @triton.autotune."""
    if "'function' object has no attribute 'arg_names'" not in setting.fault.message:
        return None
    bare = [part for function in setting.tree.body for part in getattr(function, "decorator_list", []) if isinstance(part, ast.Attribute)]
    if called := [part for part in bare if part.attr in ("autotune", "heuristics")]:
        cause = f"@{unparsed(called[0])} has no brackets, so it was given nothing"
        return Told(setting.at(called[0]), cause, f"write @{unparsed(called[0])}(...) with its arguments, or delete it", quiet=True)
    cause = "@triton.autotune stands directly above the function, where @triton.jit belongs"
    return Told(setting, cause, "write @triton.autotune(...) first, and @triton.jit below it, above def", quiet=True)


def no_config(setting: Setting) -> Told | None:
    """configs=[{"BLOCK_M": 16}]: dictionaries, numbers or tuples instead of triton.Config."""
    found = re.search(r"'(\w+)' object has no attribute '(?:kwargs|all_kwargs|pre_hook|num_warps)'", setting.fault.message)
    if not found:
        return None
    lists = [
        word.value for part in ast.walk(setting.tree) if _called(part) == "autotune" and isinstance(part, ast.Call)
        for word in part.keywords if word.arg == "configs"
    ]  # fmt: skip
    entries = [entry for written in lists for entry in getattr(written, "elts", [written]) if _called(entry) != "Config"]
    cause = f"a config is a {found[1]} here, expected triton.Config"
    at = setting.at(entries[0] if entries else None)
    return Told(at, cause, 'write triton.Config({"BLOCK_M": 64}, num_warps=4)', quiet=True)


def no_value(setting: Setting) -> Told | None:
    """acc += ... where acc is None."""
    found = re.search(r"'NoneType' object has no attribute|unsupported operand type\(s\) for .*NoneType", setting.fault.message)
    names = [name for name, kind in setting.fault.values if kind == "None"]
    if isinstance(setting.node, ast.AugAssign) and isinstance(setting.node.target, ast.Name):
        names = names or [setting.node.target.id]
    if not found or not names:
        return None
    cause = f"`{names[0]}` is None here, and None is no number"
    step = f"give it a first value, such as {names[0]} = tl.zeros((BLOCK_M, BLOCK_N), dtype=...)"
    return Told(setting, cause, step, quiet=True)


def nested_unpacking(setting: Setting) -> Told | None:
    """(a, b), (c, d) = f(), g(): Triton unpacks one level, and names no line."""
    if "unhashable type: 'list'" not in setting.fault.message:
        return None
    nested = next((
        part for function in jitted(setting.tree) for part in ast.walk(function) if isinstance(part, ast.Assign)
        and isinstance(part.targets[0], ast.Tuple) and any(isinstance(target, ast.Tuple | ast.List) for target in part.targets[0].elts)
    ), None)  # fmt: skip
    if nested is None:
        return None
    cause = "Triton unpacks one level of names: it has no (a, b), (c, d) = ..."
    return Told(setting.at(nested), cause, "write an assignment for each pair: a, b = ...", quiet=True)


def bare_decorator(setting: Setting) -> Told | None:
    """@triton.autotune without brackets."""
    found = re.search(r"\b(autotune|heuristics)\(\) missing", setting.fault.message)
    if not found or isinstance(setting.node, ast.Call):
        return None
    arguments = 'configs=[triton.Config({...})], key=["M", "N", "K"]' if found[1] == "autotune" else "{name: function}"
    cause = f"@triton.{found[1]} has no brackets, so it was given nothing"
    return Told(setting, cause, f"write @triton.{found[1]}({arguments})", quiet=True)


def noinline_with_tiles(setting: Setting) -> Told | None:
    """A helper under @triton.jit(noinline=True) that is handed a tile; Triton names no line."""
    found = re.search(r"Function (\w+) is marked noinline, but was called with non-scalar argument (\w+)", setting.fault.message)
    if not found:
        return None
    calls = [part for function in jitted(setting.tree) for part in ast.walk(function) if _called(part) == found[1]]
    cause = f"`{found[1]}` is under noinline=True, which takes numbers and pointers only, and here its `{found[2]}` is a tile"
    return Told(setting.at(calls[0] if calls else None), cause, f"write @triton.jit above def {found[1]}, without noinline", quiet=True)


def viewed_as(setting: Setting) -> Told | None:
    """word.view(tl.int8), torch's way to read bits as another dtype."""
    node = setting.node
    if not isinstance(node, ast.Call) or _called(node) != "view" or len(node.args) != 1 or not isinstance(node.func, ast.Attribute):
        return None
    dtype = unparsed(node.args[0])
    if not re.fullmatch(r"(tl|torch)\.\w*(int|float)\d+", dtype):
        return None
    owner = shortened(unparsed(node.func.value))
    cause = "view changes the shape of a tile, not its dtype"
    return Told(setting, cause, f"write {owner}.to({dtype.replace('torch', 'tl')}, bitcast=True), between types of one width", quiet=True)


def loose_sizes(setting: Setting) -> Told | None:
    """tl.zeros(BLOCK_M, BLOCK_N, tl.int32): the sizes are one tuple."""
    node = setting.node
    if not isinstance(node, ast.Call) or _called(node) not in ("zeros", "full") or "argument" not in setting.fault.message:
        return None
    sizes = [part for part in node.args if not isinstance(part, ast.Attribute | ast.Tuple | ast.List)]
    if len(sizes) < 2 or sizes != node.args[: len(sizes)]:
        return None
    called, shape = unparsed(node.func), ", ".join(unparsed(part) for part in sizes)
    rest = "".join(f", {unparsed(part)}" for part in [*node.args[len(sizes) :], *node.keywords])
    return Told(setting, f"{called} takes the sizes as one tuple", f"write {shortened(f'{called}(({shape}){rest})')}", quiet=True)


def _called(node: ast.AST | None) -> str:
    return unparsed(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


WORDING = (
    block_pointer_in_while, indexed_function, called_attribute, recursion, unequal_unpacking, endless_while, loop_else,
    decorators_swapped, no_config, no_value, nested_unpacking, bare_decorator, noinline_with_tiles,
    viewed_as,
    loose_sizes,
)  # fmt: skip
