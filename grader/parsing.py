"""ast.parse, one thread at a time.

Before Python 3.11.8 and 3.12.2 two threads that parse at once could fail with "AST constructor recursion depth mismatch"
(CPython issue 106905).
"""

from __future__ import annotations

import ast
import threading

_parsing = threading.Lock()


def parse(text: str) -> ast.Module:
    """The module's syntax tree. Raises what ast.parse raises."""
    with _parsing:
        return ast.parse(text)
