"""Which definitions hold after a notebook's cells were run, some of them again: the last one of each name.

The saved notebook would have each cell once, in its place. So a definition that was run again stands where the one
that it replaces stood, and what it needs stands before it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from grader.reading.selection import Statement, makes_values

REPLACING = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def latest(executed: Sequence[Statement]) -> list[Statement]:
    """The statements that still count, each after those that it needs. `executed`: in the order they were run.

    One that binds nothing, as CONFIGS.append(...) does, counts as long as the values that it mentions are those of its time.
    """
    slot: dict[str, int] = {}
    replaced_at: dict[str, int] = {}
    values_at: dict[str, int] = {}
    for at, statement in enumerate(executed):
        for name in statement.binds:
            slot.setdefault(name, at)
            if isinstance(statement.node, REPLACING) and not _within_one_cell(executed, replaced_at.get(name), at):
                replaced_at[name] = at
                if makes_values(statement.node):
                    values_at[name] = at
    selected = [
        (min((slot[name] for name in statement.binds), default=_beside(statement, slot, values_at, at)), at, statement)
        for at, statement in enumerate(executed)
        if any(at >= replaced_at.get(name, 0) for name in statement.binds)
        or (not statement.binds and all(at >= values_at.get(name, 0) for name in statement.needs))
    ]
    ordered = [statement for _, _, statement in sorted(selected, key=lambda entry: entry[:2])]
    return _after_their_needs(ordered)


def _beside(statement: Statement, slot: Mapping[str, int], values_at: Mapping[str, int], at: int) -> int:
    """Where a statement that binds nothing stands: with the last of the values that it mentions."""
    return max((slot[name] for name in statement.needs if name in values_at), default=at)


def _within_one_cell(executed: Sequence[Statement], earlier: int | None, at: int) -> bool:
    """Whether a name was bound twice by one run of a cell, such as a first value and a better one: both stay."""
    return earlier is not None and executed[earlier].cell is executed[at].cell


def _after_their_needs(statements: Sequence[Statement]) -> list[Statement]:
    by_name: dict[str, list[int]] = {}
    for at, statement in enumerate(statements):
        for name in statement.binds:
            by_name.setdefault(name, []).append(at)
    placed: list[Statement] = []
    begun: set[int] = set()
    for first in range(len(statements)):
        waiting = [(first, False)]  # a statement, and whether what it needs is placed
        while waiting:
            at, ready = waiting.pop()
            if ready:
                placed.append(statements[at])
            elif at not in begun:
                begun.add(at)
                needs = sorted(statements[at].needs - statements[at].binds)
                waiting.append((at, True))
                waiting += [(needed, False) for name in reversed(needs) for needed in reversed(by_name.get(name, ()))]
    return placed
