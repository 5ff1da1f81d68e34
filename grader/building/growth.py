"""How many calls does a kernel come to? Triton writes a helper out at each of its calls, and so the helpers that this one calls.

A chain of helpers of which each calls the one before it twice doubles with every link: forty lines of text are more than any
compiler or interpreter ends. So calls are counted before either sees the text.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

MAX_CALLS = 1000
"""Calls of helpers, each counted as often as it is written out. Triton takes a second for a thousand and a minute for eight
thousand; the solutions have fewer than ten."""


def calls(kernel: str, functions: Mapping[str, ast.FunctionDef]) -> int:
    """The calls of these functions that `kernel` comes to, at most MAX_CALLS + 1. A call that leads back to its caller counts once.

    Not by recursion: a chain may have more links than Python has frames.
    """
    counted: dict[str, int] = {}
    called: dict[str, list[str]] = {}
    waiting = [kernel]
    while waiting:
        name = waiting[-1]
        if name not in called:
            called[name] = _called(functions[name], functions)
            waiting += [callee for callee in called[name] if callee not in called]
            continue
        waiting.pop()
        counted[name] = min(MAX_CALLS + 1, sum(1 + counted.get(callee, 0) for callee in called[name]))
    return counted[kernel]


def _called(function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> list[str]:
    """The functions that one calls, as often as it does."""
    parts = (part.func for part in ast.walk(function) if isinstance(part, ast.Call))
    return [part.id for part in parts if isinstance(part, ast.Name) and part.id in functions]
