"""What of a submitted notebook counts? Text of cells, in the shape of the notebook that was released.

Students may remove, rename, copy and alter cells, and forge outputs and metadata. What nbgrader goes on with has
every released cell once, with the released metadata, locked cells with the released text, and no outputs at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, reads, v4

from grader.reading.files import MAX_CELL_CHARS, MAX_NOTEBOOK_BYTES
from grader.reporting.text import encodable

TAG = re.compile(r"<(?=[A-Za-z/!?])")
ZERO_WIDTH_SPACE = "\u200b"
MAKERS = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}


def read_submitted(path: Path) -> NotebookNode:
    """The notebook as JSON tells it, or one without cells when the file is none; nothing about it can be relied on."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_NOTEBOOK_BYTES:
            return v4.new_notebook()
        notebook = reads(path.read_text(encoding="utf-8-sig"), as_version=4)
    except Exception:  # nbformat raises many kinds for what is no notebook
        return v4.new_notebook()
    return notebook if isinstance(notebook.get("cells"), list) else v4.new_notebook()


def restored(submitted: NotebookNode, released: NotebookNode) -> NotebookNode:
    """The released notebook with the student's text in the cells that were theirs to fill, and their own cells between.

    A released cell that is gone comes back behind the one before it. Of copies of a cell the last one counts, as in
    nbgrader; the others stay as cells of no account.
    """
    known = {grade_id: cell for cell in released.cells if (grade_id := _grade_id(cell))}
    found = [cell for cell in submitted.cells if _usable(cell)]
    last = {_grade_id(cell): at for at, cell in enumerate(found)}
    texts = {cell.source for cell in released.cells}
    cells = []
    for at, cell in enumerate(found):
        grade_id = _grade_id(cell)
        if grade_id in known and last[grade_id] == at:
            cells.append(_filled(known[grade_id], cell, texts))
        else:
            cells.append(MAKERS[cell.cell_type](_shown(cell, cell.cell_type, texts)))
            _attach(cells[-1], cell)
    present = {_grade_id(cell) for cell in cells}
    before = None
    for grade_id, cell in known.items():
        if grade_id not in present:
            after = (at + 1 for at, other in enumerate(cells) if before and _grade_id(other) == before)
            cells.insert(next(after, 0), _copy(cell))
        before = grade_id
    return v4.new_notebook(cells=cells, metadata=released.metadata)


def _grade_id(cell: Any) -> str | None:
    nbgrader = cell.get("metadata", {}).get("nbgrader")
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, Mapping) else None
    return grade_id if isinstance(grade_id, str) and grade_id else None


def _usable(cell: Any) -> bool:
    return (
        isinstance(cell, Mapping)
        and cell.get("cell_type") in MAKERS
        and isinstance(cell.get("source"), str)
        and len(cell["source"]) <= MAX_CELL_CHARS
        and isinstance(cell.get("metadata", {}), Mapping)
    )


def _copy(released: Any) -> Any:
    cell = MAKERS[released.cell_type](released.source, metadata=released.metadata)
    if "id" in released:
        cell["id"] = released["id"]
    return cell


def _filled(released: Any, submitted: Any, texts: set[str]) -> Any:
    """A released cell; with the student's text, unless it is locked or worth points without being a solution."""
    cell = _copy(released)
    if released.metadata["nbgrader"].get("solution"):
        cell["source"] = _shown(submitted, cell.cell_type, texts)
        _attach(cell, submitted)
    return cell


def _shown(cell: Any, kind: str, texts: set[str]) -> str:
    """The text of a cell that is shown as `kind`. In a student's own text no HTML tag begins, also where the course's
    configuration is older than grader.classroom.gradebook.markdown."""
    source = encodable(str(cell.source))
    if kind == "code" or source in texts:
        return source
    return TAG.sub(f"<{ZERO_WIDTH_SPACE}", source)


def _attach(cell: Any, submitted: Any) -> None:
    """Keeps the pictures that were pasted into a text cell."""
    attachments = submitted.get("attachments")
    if cell.cell_type != "markdown" or not isinstance(attachments, Mapping):
        return
    pictures = {
        encodable(name): {kind: data for kind, data in bundle.items() if _is_picture(kind, data)}
        for name, bundle in attachments.items()
        if isinstance(bundle, Mapping)
    }
    if pictures:
        cell["attachments"] = pictures


def _is_picture(kind: str, data: Any) -> bool:
    return kind.startswith("image/") and isinstance(data, str) and (kind + data).isascii()
