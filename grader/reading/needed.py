"""What does a kernel need of its file, and may it be there?"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass

from grader.compile_errors.source_message import undefined_name
from grader.model import Refusal
from grader.reading import policy
from grader.reading.files import Cell
from grader.reading.selection import MAX_DEPTH, Statement, closure, too_deep, unbound, with_changes


@dataclass(frozen=True)
class Needed:
    """Statements in source order. note: on the first one that is left out, though it may change what these make, or ""."""

    statements: list[Statement]
    note: str


def needed(cells: Sequence[Cell], everything: Sequence[Statement], roots: Sequence[str]) -> Needed | Refusal:
    """What the roots reach of a file's statements, and what may change that; a refusal where a name is missing, or something may not be
    there."""
    selected = closure(everything, roots)
    if deep := too_deep(selected):
        return nested(deep)
    for name, statement in unbound(selected).items():
        if broken := next((cell.error for cell in reversed(cells) if cell.error and _seems_to_bind(cell, name)), ""):
            return Refusal("rejected", broken)
        known = {bound for other in everything for bound in other.binds}
        return Refusal("rejected", undefined_name(statement.cell, statement.node, name, known))
    message = policy.violation(selected)
    return Refusal("rejected", message) if message else _with_changes(everything, selected)


def _with_changes(everything: Sequence[Statement], selected: Sequence[Statement]) -> Needed:
    bound = {name for one in everything for name in one.binds} | set(dir(builtins))
    own = policy.own_attributes(everything)

    known: dict[int, str] = {}

    def fault(more: list[Statement]) -> str:
        """Why one of them may not be there; each is looked through once, however many others reach it."""
        for one in more:
            if id(one) not in known:
                missing = one.needs - bound
                undefined = f"`{min(missing)}` is not defined" if missing else ""
                deep = nested(one).message if too_deep([one]) else ""
                known[id(one)] = deep or undefined or policy.violation([one], own) or ""
        return next(filter(None, (known[id(one)] for one in more)), "")

    jitted = {name for one in everything if policy.is_jitted(one.node) for name in one.binds}
    whole, left_out = with_changes(everything, selected, jitted, fault)
    for one, why in left_out:
        if not (isinstance(one.node, ast.Assign | ast.AnnAssign) and one.binds):  # a new name, which changes nothing
            reason = why.removeprefix(f"{one.place}: ")
            note = f"{one.place} is not executed for grading, so a change that it makes does not count: {reason}"
            return Needed(whole, note)
    return Needed(whole, "")


def nested(statement: Statement) -> Refusal:
    """That a statement is nested more deeply than what reads it later can follow."""
    names = " and ".join(f"`{name}`" for name in sorted(statement.binds)[:2]) or "this statement"
    return Refusal(
        "rejected",
        f"{statement.place}: an expression in {names} is nested more than {MAX_DEPTH} levels deep; compute it in several steps",
    )


def _seems_to_bind(cell: Cell, name: str) -> bool:
    """Whether a cell that cannot be read has a line that would give this name a value."""
    binding = rf"^(?:(?:def|class)\s+{name}\b|{name}\s*(?::[^=\n]*)?=(?!=)|(?:from|import)\b.*\b{name}\b)"
    return re.search(binding, cell.source, re.MULTILINE) is not None
