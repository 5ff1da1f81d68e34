"""Which text did the student write? Turns a .py or .ipynb into cells of Python source, and never runs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.teaching.syntax import syntax_sentence

MAX_PYTHON_BYTES = 1 << 20
MAX_NOTEBOOK_BYTES = 256 << 20
MAX_CELL_CHARS = 1 << 20


class UnreadableFile(ValueError):
    """A file that holds no readable source; the message is one sentence for the student."""


@dataclass(frozen=True)
class Cell:
    """A run of source lines with the name a student knows it by: "w8a8.py" or "w8a8.ipynb cell 7".

    `tree` is None when the cell is no valid Python; then `error` says where and why.
    """

    place: str
    source: str
    tree: ast.Module | None
    error: str = ""


def read_cells(path: Path) -> list[Cell]:
    """The cells of a .py (one cell) or an .ipynb (its code cells, magics blanked).

    Raises UnreadableFile for what is empty, too large, not UTF-8, not JSON or not a notebook.
    """
    limit = MAX_NOTEBOOK_BYTES if path.suffix == ".ipynb" else MAX_PYTHON_BYTES
    try:
        size = path.stat().st_size
        if size > limit:
            raise UnreadableFile(
                f"{path.name} has {size / 1e6:.0f} MB, the limit is {limit / 1e6:.0f} MB; clear its outputs and save again"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path.name} cannot be read ({error.strerror}); check its permissions") from None
    if not data.strip():
        raise UnreadableFile(f"{path.name} is empty; hand in the file with your kernel in it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{path.name} is not UTF-8 (byte {error.start}); save it again with the encoding UTF-8"
        ) from None
    if path.suffix == ".ipynb":
        return _notebook_cells(path.name, text)
    return [_parsed(path.name, text)]


def executed_cells(inputs: Sequence[str]) -> list[Cell]:
    """The cells that a running notebook has executed, named by their number: "cell [7]". Empty inputs are left out."""
    return [
        _parsed(f"cell [{number}]", _without_magics(source))
        for number, source in enumerate(inputs)
        if source.strip() and len(source) <= MAX_CELL_CHARS
    ]


def _notebook_cells(name: str, text: str) -> list[Cell]:
    import nbformat

    try:
        notebook = nbformat.reads(text, as_version=4)
        cells = notebook["cells"]
        sources = [
            (number, cell["source"]) for number, cell in enumerate(cells, start=1) if cell["cell_type"] == "code"
        ]
    except RecursionError:
        raise UnreadableFile(f"{name} is nested too deeply for a notebook; save it again from Jupyter") from None
    except Exception as error:  # nbformat raises many kinds for what is no notebook
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise UnreadableFile(f"{name} is not a Jupyter notebook ({reason}); save it again from Jupyter") from None
    found = []
    for number, source in sources:
        if isinstance(source, str) and len(source) <= MAX_CELL_CHARS:
            found.append(_parsed(f"{name} cell {number}", _without_magics(source)))
    return found


def _without_magics(source: str) -> str:
    """Blanks IPython's magics and shell lines; a cell magic other than %%time or %%timeit blanks the whole cell."""
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and not re.match(r"%%(time|timeit|capture)\b", first):
        return "\n" * max(0, len(lines) - 1)
    kept: list[str] = []
    for line in lines:
        stripped = line.lstrip()
        magic = stripped.startswith(("%", "!", "?")) or re.match(r"^[\w.]+\s*\?{1,2}\s*$", stripped)
        kept.append("" if magic and not _continues(kept) else line)
    return "\n".join(kept)


def _continues(lines: list[str]) -> bool:
    """Whether the next line continues an open bracket, where a leading % is Python's modulo."""
    text = "\n".join(lines)
    opened = sum(text.count(bracket) for bracket in "([{")
    closed = sum(text.count(bracket) for bracket in ")]}")
    return opened > closed or text.endswith("\\")


def _parsed(place: str, source: str) -> Cell:
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    try:
        return Cell(place, source, ast.parse(source))
    except SyntaxError as error:
        return Cell(place, source, None, syntax_sentence(place, source, error))
    except (RecursionError, MemoryError, ValueError) as error:
        return Cell(place, source, None, f"{place}: {error or 'nested too deeply'}")
