"""Which tensor is an access meant for whose address is far from all of them? The kernel's own variables tell."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grader.interpreter.areas import Area, area_at


def pointed_at(path: str, areas: Sequence[Area]) -> Area | None:
    """The one tensor whose pointers the running statement of the module at `path` makes its address of; else those of the call that
    led there. None where these are none or several."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            found = {
                area.name: area for area in _reached(tree, frame.f_code.co_name, frame.f_lineno, frame.f_locals, areas)
            }
            if found:
                return next(iter(found.values())) if len(found) == 1 else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _reached(
    tree: ast.Module, function: str, line: int, known: dict[str, Any], areas: Sequence[Area]
) -> Iterator[Area]:
    """The tensors at which pointers point that the statement at a line names, or of which it names what was made. known: the variables."""
    body = [part for node in tree.body if getattr(node, "name", "") == function for part in ast.walk(node)]
    waiting = [name for node in body if isinstance(node, _SIMPLE) and _holds(node, line) for name in _names(node)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        addresses = None if name in seen else _addresses(known.get(name))
        seen.add(name)
        if addresses is None:
            continue
        area = area_at(addresses, areas)
        if area is not None:
            yield area
            continue
        waiting += [
            other for node in body if isinstance(node, _ASSIGNMENTS) and _assigns(node, name) for other in _names(node)
        ]


_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign)
_SIMPLE = (*_ASSIGNMENTS, ast.Expr, ast.Return)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _assigns(node: ast.Assign | ast.AugAssign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(name in _names(target) for target in targets)


def _addresses(value: Any) -> np.ndarray | None:
    """The addresses in a tile of pointers, or the first one of a block pointer or a descriptor; None of anything else."""
    handle = getattr(value, "handle", None)
    handle = getattr(handle, "base", handle)
    data = getattr(handle, "data", None)
    return data if isinstance(data, np.ndarray) and data.dtype == np.uint64 and data.size else None
