"""ast.parse, one thread at a time, and the nodes of one kind in what it gives.

Before Python 3.11.8 and 3.12.2 two threads that parse at once could fail with "AST constructor recursion depth mismatch"
(CPython issue 106905).
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from typing import TypeVar

_parsing = threading.Lock()


def parse(text: str) -> ast.Module:
    """The module's syntax tree. Raises SyntaxError, also of a text with null bytes or surrogates."""
    with _parsing:
        try:
            return ast.parse(text)
        except ValueError as problem:
            raise SyntaxError(str(problem)) from None


def function_named(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The module's function of that name."""
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


Node = TypeVar("Node", bound=ast.AST)


def nodes(tree: ast.AST | None, kind: type[Node]) -> Iterator[Node]:
    """The nodes of one kind in a tree, in the order of `ast.walk`; none of None."""
    return (node for node in ast.walk(tree) if isinstance(node, kind)) if tree is not None else iter(())
