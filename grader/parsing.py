"""ast.parse, one thread at a time, and the nodes of one kind in what it gives.

Before Python 3.11.8 and 3.12.2 two threads that parse at once could fail with "AST constructor recursion depth mismatch"
(CPython issue 106905).
"""

from __future__ import annotations

import ast
import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TypeVar

_parsing = threading.Lock()

MAX_MARKS = 64
"""Combining marks behind one letter. Python puts those of a name in order, in a time that grows with the square of their number."""
NOT_ASCII = re.compile(rf"[^\x00-\x7f]{{{MAX_MARKS // 4},}}")

F_STRING = re.compile(r"(?:[fF][rR]?|[rR][fF])['\"]")
MAX_WITH_F_STRINGS, MAX_LINE_WITH_F_STRINGS = 1 << 17, 1 << 14
"""Characters, where f-strings may be among them. Before Python 3.12 each {field} of one is sought from its line's beginning on."""


def parse(text: str) -> ast.Module:
    """The module's syntax tree. Raises SyntaxError, also of a text with null bytes or surrogates, with letters of too many marks or with
    too long f-strings."""
    for run in () if text.isascii() else NOT_ASCII.finditer(text):
        if _most_marks(run[0]) > MAX_MARKS:
            line = text.count("\n", 0, run.start()) + 1
            raise SyntaxError(f"a letter has more than {MAX_MARKS} combining marks", ("", line, None, None))
    if F_STRING.search(text):
        longest = max(map(len, text.split("\n")))
        if len(text) > MAX_WITH_F_STRINGS or longest > MAX_LINE_WITH_F_STRINGS:
            raise SyntaxError(
                f"a text with f-strings has at most {MAX_WITH_F_STRINGS >> 10} KB, and a line of it {MAX_LINE_WITH_F_STRINGS >> 10} KB"
            )
    with _parsing:
        try:
            return ast.parse(text)
        except ValueError as problem:
            raise SyntaxError(str(problem)) from None


def _most_marks(run: str) -> int:
    """Combining marks that follow one another in a run of text, written out as Python does to compare names."""
    marks = "".join(map(_marks, run))
    return max(map(len, marks.split(" ")))


@cache
def _marks(character: str) -> str:
    """A character that is written out, `^` for each mark and a blank for whatever is none."""
    return "".join("^" if unicodedata.combining(one) else " " for one in unicodedata.normalize("NFKD", character))


def function_named(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The module's function of that name."""
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


Node = TypeVar("Node", bound=ast.AST)


def nodes(tree: ast.AST | None, kind: type[Node]) -> Iterator[Node]:
    """The nodes of one kind in a tree, in the order of `ast.walk`; none of None."""
    return (node for node in ast.walk(tree) if isinstance(node, kind)) if tree is not None else iter(())
