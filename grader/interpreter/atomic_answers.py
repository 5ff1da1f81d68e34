"""Does a kernel make something of what an atomic gives back? Then that depends on which program came first."""

from __future__ import annotations

import ast
from functools import cache


@cache
def lines_of_use(path: str) -> frozenset[int]:
    """Lines of the module on which it does; a helper that returns an atomic's answer is not among them."""
    with open(path, encoding="utf-8") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    renamed = {
        alias.asname
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if "atomic_" in alias.name
    }
    unused = _left_alone(nodes)
    calls = [node for node in nodes if isinstance(node, ast.Call) and node not in unused and _is_atomic(node, renamed)]
    return frozenset(line for node in calls for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_atomic(node: ast.Call, renamed: set[str | None]) -> bool:
    called = ast.unparse(node.func)
    return "atomic_" in called or called in renamed


def _left_alone(nodes: list[ast.AST]) -> set[ast.AST | None]:
    """Values that nothing is made of: statements of their own, what is returned, what is assigned to names that nobody reads."""
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    left: set[ast.AST | None] = {node.value for node in nodes if isinstance(node, (ast.Expr, ast.Return))}
    for node in nodes:
        if isinstance(node, ast.Assign) and not read & {getattr(target, "id", "") for target in node.targets}:
            left.add(node.value)
    for node in nodes:  # from the outside in: `store(...) if SPLIT_K == 1 else atomic_add(...)`
        if isinstance(node, ast.IfExp) and node in left:
            left |= {node.body, node.orelse}
    return left
