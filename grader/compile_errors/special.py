"""Errors whose cause is not the line that the compiler names, or that take more than words: each found, or not.

Every function takes the setting and answers with a Told, or None when the error is another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from grader.compile_errors import names
from grader.compile_errors.conditions import CONDITIONS
from grader.compile_errors.lessons import CONSTRUCTS
from grader.compile_errors.mismatched import branches_differ, loop_carried, shapes_differ, value_before_pointers
from grader.compile_errors.misused import MISUSED
from grader.compile_errors.products import accumulator
from grader.compile_errors.setting import Setting, jitted, last_store, shortened, targets, unparsed
from grader.compile_errors.told import Told
from grader.compile_errors.wording import WORDING


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
            and any(isinstance(t, ast.Name) and t.id == name for t in targets(part))
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


def returned_nothing(setting: Setting) -> Told | None:
    """A helper without a `return`, whose result is used."""
    if not re.search(r"cannot convert None|NoneType|'void'|cannot cast void|'constexpr' object has no attribute", setting.fault.message):
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


def starred(setting: Setting) -> Told | None:
    """An unpacking with *, at which Triton stops without words."""
    at = next((part for part in ast.walk(setting.node or setting.tree) if isinstance(part, ast.Starred)), None)
    if at is None or setting.fault.kind != "AssertionError" or setting.node is None:
        return None
    cause, _ = CONSTRUCTS["Starred"]
    return Told(setting.at(at), cause, "give each value a name of its own: a, b, c = ..., or take it by its number: values[0]", quiet=True)


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
    last = last_store(setting.node, name)
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
    if word.arg == "other" and called.endswith("store"):
        step = "remove it: where its mask is false, a store writes nothing"
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
    construct, starred, *MISUSED, found_by_looking, missing_attribute, return_in_loop, constexpr_changed, config_keyword,
    misspelt_keyword, value_before_pointers, accumulator, caching_twice, *WORDING, *CONDITIONS,
)  # fmt: skip
