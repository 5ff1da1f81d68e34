"""A `while` loop that cannot end: nothing in its body changes what its condition asks about."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from grader.compile_errors.setting import unparsed
from grader.parsing import nodes, parse


def endless(text: str, lines: Sequence[int]) -> tuple[int, str] | None:
    """The line of the innermost such loop around one of these lines of a module, which `lines` lists innermost first; and a clause."""
    try:
        tree = parse(text)
    except SyntaxError:
        return None
    loops = sorted(nodes(tree, ast.While), key=lambda loop: -loop.lineno)
    around = (loop for line in lines for loop in loops if loop.lineno <= line <= (loop.end_lineno or loop.lineno))
    return next(((loop.lineno, _words(loop)) for loop in around if _never_changes(loop)), None)


def first_endless(text: str) -> tuple[int, str] | None:
    """The line of the first such loop in a module, and a sentence on it; None where there is none."""
    loops = filter(_never_changes, nodes(parse(text), ast.While))
    found = min(loops, key=lambda loop: loop.lineno, default=None)
    if found is None:
        return None
    counter = next(iter(_asked(found)), "")
    step = (
        f"advance the counter at the end of its body: {counter} += ..."
        if counter
        else "give it a condition that changes"
    )
    return found.lineno, f"{_words(found)}; {step}"


def _asked(loop: ast.While) -> list[str]:
    """The names that the condition asks about, each once."""
    return list(dict.fromkeys(part.id for part in nodes(loop.test, ast.Name)))


def _never_changes(loop: ast.While) -> bool:
    inside = [part for statement in loop.body for part in ast.walk(statement)]
    changed = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    leaves = any(isinstance(part, ast.Break | ast.Return) for part in inside)
    return not leaves and changed.isdisjoint(_asked(loop)) and not any(nodes(loop.test, ast.Call))


def _words(loop: ast.While) -> str:
    names = _asked(loop)
    changes = f"nothing in its body changes {' or '.join(names)}" if names else "nothing ends it"
    return f"`while {unparsed(loop.test)}` never ends: {changes}"
