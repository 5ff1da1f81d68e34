"""A `while` loop that cannot end: nothing in its body changes what its condition asks about."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from grader.compile_errors.setting import unparsed


def endless(text: str, lines: Sequence[int]) -> tuple[int, str] | None:
    """The line of the innermost such loop around one of these lines of a module, which `lines` lists innermost first; and a clause."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    loops = sorted((node for node in ast.walk(tree) if isinstance(node, ast.While)), key=lambda loop: -loop.lineno)
    around = (loop for line in lines for loop in loops if loop.lineno <= line <= (loop.end_lineno or loop.lineno))
    return next(((loop.lineno, _words(loop)) for loop in around if _never_changes(loop)), None)


def first_endless(text: str) -> tuple[int, str] | None:
    """The line of the first such loop in a module, and a sentence on it; None where there is none."""
    loops = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.While))
    found = min((loop for loop in loops if _never_changes(loop)), key=lambda loop: loop.lineno, default=None)
    if found is None:
        return None
    counter = next((part.id for part in ast.walk(found.test) if isinstance(part, ast.Name)), "")
    step = (
        f"advance the counter at the end of its body: {counter} += ..."
        if counter
        else "give it a condition that changes"
    )
    return found.lineno, f"{_words(found)}; {step}"


def _never_changes(loop: ast.While) -> bool:
    inside = [part for statement in loop.body for part in ast.walk(statement)]
    asked = {part.id for part in ast.walk(loop.test) if isinstance(part, ast.Name)}
    changed = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    leaves = any(isinstance(part, ast.Break | ast.Return) for part in inside)
    return not leaves and not asked & changed and not any(isinstance(part, ast.Call) for part in ast.walk(loop.test))


def _words(loop: ast.While) -> str:
    names = list(dict.fromkeys(part.id for part in ast.walk(loop.test) if isinstance(part, ast.Name)))
    changes = f"nothing in its body changes {' or '.join(names)}" if names else "nothing ends it"
    return f"`while {unparsed(loop.test)}` never ends: {changes}"
