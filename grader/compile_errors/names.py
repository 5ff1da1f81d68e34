"""What could a name that nothing defines have meant? The nearest name in reach, or Triton's word for NumPy's or torch's."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import re
from collections.abc import Iterable, Sequence
from functools import cache

from grader.compile_errors.table import Message, import_of, instead
from grader.parsing import nodes

HANDED_IN = r"[MNK]|BLOCK(_\w+)?|\w+_ptr|stride_\w+"
"""Names of what a function of a kernel can only have as a parameter."""
LIST_METHODS = ("append", "extend", "insert", "pop")
OF_TRITON = frozenset(
    ("triton.cdiv", "triton.jit", "triton.autotune", "triton.Config", "triton.heuristics", "triton.next_power_of_2")
)
LONGEST_MISSPELT = 80
"""Characters of a name that somebody may have misspelt; difflib takes time with the square of its length."""


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is nearest to the name: alike but for case and underscores, or by difflib; None if none is."""
    if len(name) > LONGEST_MISSPELT:
        return None
    known = sorted(candidate for candidate in set(candidates) - {name} if len(candidate) <= 2 * LONGEST_MISSPELT)
    for candidate in known:
        if _plain(candidate) == _plain(name) or _plain(candidate.rpartition(".")[2]) == _plain(name):
            return candidate
    by_tail = {candidate.rpartition(".")[2]: candidate for candidate in reversed(known)}
    close = difflib.get_close_matches(name, by_tail, 1, 0.7 if len(name) > 3 else 0.6)
    return by_tail[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


@cache
def language_names() -> frozenset[str]:
    """Functions and dtypes of triton.language, as a kernel writes them: "tl.arange"."""
    import triton.language as tl

    public = {name for name in tl.__all__ if hasattr(tl, name) and not inspect.ismodule(getattr(tl, name))}
    return frozenset(
        f"tl.{name}" for name in public if name not in ("PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "str_to_ty")
    )


@cache
def tensor_names() -> frozenset[str]:
    """Methods of a tensor in a kernel."""
    import triton.language as tl

    return frozenset(name for name in dir(tl.tensor) if not name.startswith("_"))


def parameters_of(call: str) -> list[str]:
    """Parameters of a function of triton.language ("tl.load") or of a tensor's method, without Triton's own."""
    import triton.language as tl

    name = call.rpartition(".")[2]
    target = getattr(tl, name, None) if call.startswith(("tl.", "triton.language.")) else getattr(tl.tensor, name, None)
    try:
        found = inspect.signature(getattr(target, "fn", target)).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in found.values()
        if not p.name.startswith("_") and p.kind is not p.VAR_KEYWORD and p.name != "self"
    ]


def missing_import(name: str) -> Message | None:
    """About a name that is a module's, and that nothing imports."""
    module = import_of(name)
    cause, step = f"`{name}` is not defined: its import is missing", f"put {module} at the top of the file"
    return Message(cause, step) if module else None


def undefined(
    name: str, tree: ast.AST, function: ast.AST | None = None, line: int | None = None, scope: Iterable[str] = ()
) -> Message:
    """About a name without a value.

    `function` holds the use, which is in `line` of the tree; scope: names that had a value there.
    """
    if function is not None and (found := _defined_out_of_reach(name, function, line)):
        return found
    if name in ("torch", "np", "numpy", "cupy", "jax"):
        return Message(
            f"`{name}` is not defined, and a Triton kernel cannot call it",
            "compute it with triton.language (tl.) operations on tiles",
        )
    if found := missing_import(name):
        return found
    if name in instead() and hasattr(builtins, name):
        return Message(f"Python's `{name}` does not work in a Triton kernel", f"write {instead()[name]}")
    seen = set(scope) if len(name) > 1 else set()  # a notebook has an `x` or `w` of its own, which no kernel means
    local = seen | (_bound(function) if function is not None else set()) | _bound_at_top(tree)
    if f"tl.{name}" in language_names():
        return Message(f"`{name}` is not defined", f"did you mean `tl.{name}`? Triton's functions need the prefix tl.")
    near = suggest(name, local) or (None if name in instead() else suggest(name, language_names()))
    if near:
        return Message(f"`{name}` is not defined", f"did you mean `{near}`?")
    if name in instead():
        return Message(f"`{name}` is not defined", f"write {instead()[name]}")
    if hasattr(builtins, name):
        return Message(
            f"Python's `{name}` does not work in a Triton kernel", "write it with triton.language (tl.) operations"
        )
    if isinstance(function, ast.FunctionDef) and re.fullmatch(HANDED_IN, name):
        cause = f"`{name}` is not defined: {function.name} has no such parameter"
        return Message(cause, "do without it, or make it a parameter and pass it in the call")
    return Message(
        f"`{name}` is not defined", f"give `{name}` a value above this line, or import it at the top of the file"
    )


def _defined_out_of_reach(name: str, function: ast.AST, line: int | None) -> Message | None:
    """A name that the same function does define, only not where it is used."""
    stores = [part for part in nodes(function, ast.Name) if part.id == name and isinstance(part.ctx, ast.Store)]
    before = [part for part in stores if line is not None and part.lineno < line]
    block = _only_inside(before or stores, function, line or 0)
    if block is not None:
        kind = {ast.If: "if", ast.For: "for", ast.While: "while"}[type(block)]
        where = "above" if line is None or block.lineno < line else "below"
        behind = line is not None and line > (block.end_lineno or block.lineno)
        indent = ", or indent this line if it belongs inside" if behind else ""
        return Message(
            f"`{name}` has no value here: it gets one only inside the `{kind}` {where}",
            f"give `{name}` a value of the same shape and dtype before that `{kind}`{indent}",
        )
    if before or not stores:
        return None
    if min(part.lineno for part in stores) == line:
        return Message(
            f"`{name}` has no value yet: assigning to it in a kernel makes a new local variable",
            f"give `{name}` a first value in the kernel, above this line; results are stored with tl.store",
        )
    return Message(
        f"`{name}` has no value yet: it is defined further down",
        f"move the line that defines `{name}` above this one",
    )


def _only_inside(stores: Sequence[ast.Name], function: ast.AST, line: int) -> ast.If | ast.For | ast.While | None:
    """The outermost `if` or loop in whose body all of these lie, and at least one; none that holds the line and them behind it."""
    first = min((part.lineno for part in stores), default=0)
    for inner in ast.walk(function):
        if isinstance(inner, ast.If | ast.For | ast.While) and not inner.lineno < line < first:
            within = {id(part) for body in inner.body + inner.orelse for part in ast.walk(body)}
            if stores and all(id(part) in within for part in stores):
                return inner
    return None


def _bound(function: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names | {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}


def _bound_at_top(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in getattr(tree, "body", ()):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= _bound(node)
    return found


def _of(owner: str, advice: str) -> str:
    """Advice that speaks of x, with the student's own name in its place."""
    return re.sub(r"\bx\b(?!\d)", owner, advice) if re.fullmatch(r"\w{1,20}", owner) else advice


def attribute(owner: str, name: str) -> Message:
    """About an attribute that is not there. owner: how the text writes what has it: "tl", "x", "w.T"."""
    if owner in ("tl", "triton.language"):
        return _of_the_language(name)
    if owner == "triton":
        near = f"tl.{name}" if f"tl.{name}" in language_names() else suggest(name, OF_TRITON - {f"triton.{name}"})
        return Message(
            f"`triton.{name}` cannot be used in a kernel",
            f"did you mean `{near}`?" if near else "use a function of triton.language",
        )
    if owner in ("torch", "np", "numpy"):
        step = instead().get(name) or (f"tl.{name}" if f"tl.{name}" in language_names() else "tl operations on tiles")
        if re.fullmatch(r"(u?int|b?float)\d+", name):
            step = f"the number as it is, such as 127.0, or convert a tile with .to(tl.{name})"
        return Message(f"`{owner}.{name}` does not work in a Triton kernel", f"write {step}")
    if re.fullmatch(r"(tl|triton)(\.\w+)+|libdevice", owner):
        return _of_a_module(owner, name)
    if name in LIST_METHODS:
        step = "accumulate in one variable, such as acc += tl.dot(x, w)"
        return Message(f"a kernel has no lists: `{owner}` has no `.{name}`", step)
    cause = f"`{owner}` is a tensor in a kernel, which has no `.{name}`"
    near = suggest(name, tensor_names())
    if name in instead():
        return Message(cause, f"write {_of(owner, instead()[name])}")
    if f"tl.{name}" in language_names():
        return Message(cause, f"write tl.{name}(...)")
    return Message(cause, f"did you mean `.{near}`?" if near else "write it with triton.language (tl.) operations")


def _of_the_language(name: str) -> Message:
    """For what triton.language does not have, or no kernel may use."""
    import triton.language as tl

    cause = f"`tl.{name}` is not allowed in a kernel" if hasattr(tl, name) else f"triton.language has no `tl.{name}`"
    near = suggest(name, language_names() - {f"tl.{name}"})
    if name in instead() and not (near and _plain(near) == _plain(f"tl.{name}")):
        return Message(cause, f"write {instead()[name]}")
    return Message(cause, f"did you mean `{near}`?" if near else "look it up in the list of triton.language functions")


def _of_a_module(owner: str, name: str) -> Message:
    """For a module of Triton's, such as tl.math."""
    if owner.endswith("math") and name in ("max", "min"):
        step = f"write tl.{name}imum(a, b) for two, or tl.{name}(x, axis=1) within a tile"
        return Message(f"triton.language has no `{owner}.{name}`", step)
    near = suggest(name, language_names())
    step = f"did you mean `{near}`?" if near else "use functions of triton.language (tl.)"
    if name in instead():
        step = f"write {instead()[name]}"
    return Message(f"`{owner}.{name}` is not allowed in a graded kernel", step)
