"""How often a step was wrong since it was last right: what to write is said at the third try only."""

from __future__ import annotations

from grader.reporting.compact import Remark

BEFORE_CODE = 3
"""A step that was wrong so often is told what to write, and where to look; before that what is wrong, and the rest is folded."""

_failures: dict[tuple[str, str], int] = {}


def wants_code(notebook: str, step: str) -> bool:
    """Notes that a step was wrong once more (one towards speed is "speed NAME"), and tells whether it is time for what to write."""
    _failures[notebook, step] = _failures.get((notebook, step), 0) + 1
    return _failures[notebook, step] >= BEFORE_CODE


def right(notebook: str, step: str) -> None:
    """Notes that the step is right."""
    _failures.pop((notebook, step), None)


def place_hint(hint: str, *, opened: bool) -> Remark:
    """The hint, folded until it is wanted or it is time for it."""
    return Remark(f"{hint}.", "dim", "Where to look", opened)
