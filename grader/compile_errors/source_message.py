"""What reading refuses before anything runs: a name that nothing defines, a call or syntax that no kernel has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from grader.compile_errors.excerpt import Written, paragraph
from grader.compile_errors.names import attribute, missing_import, undefined
from grader.compile_errors.setting import span, unparsed
from grader.compile_errors.table import Message, construct
from grader.parsing import nodes

FOREIGN = ("torch", "np", "numpy")
GRID_PARAMETERS = ("M", "N", "K", "meta")


def is_jit(statement: ast.stmt) -> bool:
    """Whether a top-level statement is a function for Triton's compiler."""
    decorators = getattr(statement, "decorator_list", [])
    return any(re.search(r"\bjit\b", unparsed(decorator)) for decorator in decorators)


def pointed(written: Written, node: ast.AST, cause: str, next_step: str) -> str:
    """A paragraph about a node of the student's text."""
    where = span(node)
    place = str(written.at(where[0])) if where else written.place
    return paragraph(place, cause, next_step, source=written.source, span=where)


def undefined_name(written: Written, statement: ast.stmt, name: str, known: Iterable[str]) -> str:
    """About a name that a top-level statement uses and nothing defines, at its first use."""
    uses = [part for part in nodes(statement, ast.Name) if part.id == name and isinstance(part.ctx, ast.Load)]
    use: ast.AST = min(uses, key=lambda part: (part.lineno, part.col_offset), default=statement)
    holder = next((part for part in nodes(statement, ast.Attribute) if part.value is use), None)
    if holder is not None and name in FOREIGN and is_jit(statement):
        return pointed(written, holder, *attribute(name, holder.attr))
    return pointed(written, use, *_undefined(statement, use, name, known))


def _undefined(statement: ast.stmt, use: ast.AST, name: str, known: Iterable[str]) -> Message:
    """About a name that is used there and that nothing defines."""
    keys = [key for part in nodes(statement, ast.Dict) for key in part.keys]
    if any(use is key for key in keys) and not name.islower():
        return Message(f"`{name}` is not defined: the keys of a config are strings", f'write "{name}", in quotes')
    if found := missing_import(name):
        return found
    if name in GRID_PARAMETERS and (grid := _grid(statement)):
        parameters = ", ".join(GRID_PARAMETERS)
        named = isinstance(statement, ast.FunctionDef)
        step = f"write def {grid}({parameters}):" if named else f"write {grid} = lambda {parameters}: ..."
        called = f"{grid} is called with M, N, K and meta, so it must have these parameters"
        return Message(f"`{name}` is not defined: {called}", step)
    function = statement if isinstance(statement, ast.FunctionDef) else None
    return undefined(name, ast.Module([statement], []), function, getattr(use, "lineno", None), known)


def _grid(statement: ast.stmt) -> str:
    """The name of the grid that a statement defines, if it defines one: W8A8_MM_grid."""
    targets = (*getattr(statement, "targets", ()), getattr(statement, "target", None))
    names = [part.id for part in targets if isinstance(part, ast.Name)]
    return next((name for name in [getattr(statement, "name", ""), *names] if name.endswith("_grid")), "")


def unknown_attribute(written: Written, node: ast.Attribute, statement: ast.stmt) -> str:
    """About `tl.matmul`, `x.t()` in a kernel, and the like in its grid and configs."""
    owner = unparsed(node.value)
    if is_jit(statement) or owner in ("tl", "triton", "triton.language"):
        cause, step = attribute(owner, node.attr)
    elif owner == "meta":
        cause, step = "`meta` is a dictionary", f'write meta["{node.attr}"]'
    else:
        cause = f"`{owner}.{node.attr}` is not allowed in configs and grid"
        step = "use numbers, arithmetic and triton.cdiv(a, b)"
    return pointed(written, node, cause, step)


def not_compiled(written: Written, node: ast.AST) -> str:
    """About syntax that no kernel has: try, import, lambda, global, class."""
    cause, step = construct(type(node).__name__)
    return pointed(written, node, cause, step)


def torch_in_kernel(written: Written, name: ast.Name, function: ast.AST) -> str:
    """About torch inside a kernel: what to write instead of the function that is called."""
    holder = next((part for part in ast.walk(function) if isinstance(part, ast.Attribute) and part.value is name), None)
    if holder is None:
        return pointed(written, name, "a Triton kernel cannot call torch", "compute it with tl operations on tiles")
    cause, step = attribute("torch", holder.attr)
    return pointed(written, holder, cause, step)
