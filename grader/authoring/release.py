"""From solutions/ and notebooks/source/ to what students get, stripped between the solution markers; and what slips and mistakes do."""

from __future__ import annotations

import ast
from pathlib import Path

from grader.unusable import Unusable

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
STUB = "# YOUR CODE HERE"


def strip_solution(text: str, name: str) -> str:
    """`text` with each region between the markers replaced by a stub comment, and `pass` where a body would be empty.

    Raises Unusable for a marker without its partner, and for a result that is not Python.
    """
    remaining: list[str] = []
    opened: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        marker = line.strip()
        if marker == BEGIN:
            if opened is not None:
                raise Unusable(
                    f"{name} line {number}: {BEGIN} inside the region that line {opened} began; end that first"
                )
            opened = number
            indent = line[: len(line) - len(line.lstrip())]
            remaining.append(f"{indent}{STUB}")
            if indent:
                remaining.append(f"{indent}pass")
        elif marker == END:
            if opened is None:
                raise Unusable(f"{name} line {number}: {END} without {BEGIN}; add the beginning")
            opened = None
        elif opened is None:
            remaining.append(line)
    if opened is not None:
        raise Unusable(f"{name} line {opened}: {BEGIN} without {END}; add the end")
    stripped = "\n".join(remaining) + "\n"
    try:
        ast.parse(stripped)
    except SyntaxError as error:
        raise Unusable(f"{name}: without its solution, line {error.lineno} is not Python ({error.msg})") from None
    return stripped


def assignment_files(solutions: Path) -> dict[str, str]:
    """Name and text of every file of assignment/, from the .py files of solutions/."""
    return {
        path.name: strip_solution(path.read_text(encoding="utf-8"), path.name)
        for path in sorted(solutions.glob("*.py"))
    }


def release(root: Path) -> list[Path]:
    """Writes assignment/, the notebooks, the handouts' tables and what the slips of their steps give, and returns what changed.

    A file that has no source any more is removed. Raises Unusable.
    """
    from grader.authoring.mistake_operands import write_mistakes

    changed = _write(root / "assignment", "*.py", assignment_files(root / "solutions"))
    if (root / "notebooks" / "source").is_dir():
        from grader.authoring.handout_tables import handout_files
        from grader.authoring.notebooks import student_files
        from grader.authoring.slip_runs import write_slips

        changed += _write(root / "notebooks", "**/*.ipynb", student_files(root))
        changed += _write(root / "notebooks", None, handout_files(root))
        changed += write_slips(root)
    return changed + write_mistakes(root)


def _write(folder: Path, pattern: str | None, files: dict[str, str]) -> list[Path]:
    """pattern: of the files that are all made here, so that one without a source is removed."""
    folder.mkdir(exist_ok=True)
    changed = []
    for stale in folder.glob(pattern) if pattern else ():
        if stale.relative_to(folder).as_posix() not in files and ".ipynb_checkpoints" not in stale.parts:
            stale.unlink()
            changed.append(stale)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
