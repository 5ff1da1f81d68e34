"""Which text did the student write? Turns a .py or .ipynb into cells of Python source, and never runs them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from symtable import symtable
from types import MappingProxyType
from typing import Any

from grader.compile_errors.syntax import syntax_sentence
from grader.model import SourceLine
from grader.parsing import parse
from grader.plain_files import UnreadableFile, opened_plain

MAX_PYTHON_BYTES = 1 << 20
MAX_NAME = 40
MAX_NOTEBOOK_BYTES = 256 << 20
MAX_CELL_CHARS = 1 << 20
MAX_CODE_CHARS = 4 << 20
MAX_CELLS = 20_000
MAX_STATEMENTS = 50_000
"""At the top level of all cells of a hand-in; every file of these labs together has a fiftieth of it."""


UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""What a file in UTF-16 begins with, as PowerShell writes it."""
LONG_DIGITS = 1000
LONG_NUMBER = re.compile(rf"0[xXoObB][0-9a-fA-F_]{{{LONG_DIGITS}}}")
"""In decimal, Python writes and reads 4300 digits by default; these it reads whatever their number."""


@dataclass(frozen=True)
class Cell:
    """A run of source lines, with a place of its own: "w8a8.py" or "w8a8.ipynb cell 7". Students are told its lines, by `at`.

    `tree` is None when the cell is no valid Python; then `error` says where and why. steps: of a notebook, which function which
    step asks for; None of a file.
    """

    place: str
    source: str
    tree: ast.Module | None
    error: str = ""
    steps: Mapping[str, int] | None = None

    def at(self, line: int) -> SourceLine:
        """How a line of it is called, counted from 1."""
        return self.called(line, _defined_at(self, line) if self.steps is not None else "")

    def called(self, line: int, name: str) -> SourceLine:
        """The same of a line whose statement defines `name`; of one that defines none, the cell's function or its first line of text."""
        if self.steps is None:
            return SourceLine(self.place, line)
        if not name:
            above = bisect_right(self._names, line, key=itemgetter(0))
            name = self._names[max(0, above - 1)][1]
        return SourceLine(self.place, line, name, self.steps.get(name, 0))

    @cached_property
    def _names(self) -> list[tuple[int, str]]:
        """Where a function or class begins, and its name; of a cell without one its first line of text."""
        found = [
            (at, match[1]) for at, text in enumerate(self.source.split("\n"), 1) if (match := DEFINITION.match(text))
        ]
        return found or [(1, self.source.strip().split("\n")[0].replace("`", "")[:MAX_NAME])]


DEFINITION = re.compile(r"(?:def|class)\s+(\w+)")


def defined(node: ast.stmt) -> str:
    """The name that a top-level statement defines or assigns to, "" where it is none or several."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _defined_at(cell: Cell, line: int) -> str:
    """The name that the top-level statement at a line defines; "" where it defines none, and in text that is no Python."""
    body = cell.tree.body if cell.tree is not None else ()
    return next((defined(node) for node in body if line <= (node.end_lineno or 0)), "")


class Allowance:
    """What the files of one hand-in may still hold together: each character and each statement costs its readers time."""

    def __init__(self) -> None:
        self.characters, self.statements = MAX_CODE_CHARS, MAX_STATEMENTS

    def take(self, cell: Cell) -> None:
        """Raises UnreadableFile for the cell with which it is used up; that one and what comes after it is not read."""
        self.characters -= len(cell.source)
        self.statements -= len(cell.tree.body) if cell.tree is not None else 0
        if self.characters < 0 or self.statements < 0:
            what = f"{MAX_CODE_CHARS >> 20} MB of code" if self.characters < 0 else f"{MAX_STATEMENTS} statements"
            raise UnreadableFile(
                f"{cell.at(1).holder}: a hand-in holds at most {what} in all; keep the cells and files that the kernels need"
            )


def is_source(path: Path) -> bool:
    """Whether its name is that of a Python file or a notebook, in letters of either case."""
    return path.suffix.lower() in (".py", ".ipynb")


def is_notebook(path: Path) -> bool:
    """Whether its name is that of a notebook."""
    return path.suffix.lower() == ".ipynb"


def read_cells(
    path: Path, allowance: Allowance | None = None, steps: Mapping[str, int] = MappingProxyType({})
) -> list[Cell]:
    """The cells of a .py (one cell) or an .ipynb (its code cells, magics blanked).

    allowance: what is left of that of the hand-in; None: the file is one. steps: which of a notebook's functions
    which step asks for. Raises UnreadableFile for what is no plain file, empty,
    too large, not UTF-8, not JSON or not a notebook.
    """
    allowance = allowance or Allowance()
    limit = MAX_NOTEBOOK_BYTES if is_notebook(path) else MAX_PYTHON_BYTES
    try:
        size = path.lstat().st_size
        with opened_plain(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise UnreadableFile(f"{path.name} cannot be read ({error.strerror}); check its permissions") from None
    if len(data) > limit:
        raise UnreadableFile(
            f"{path.name} has {size / 1e6:.0f} MB, the limit is {limit / 1e6:.0f} MB; clear its outputs and save again"
        )
    try:
        text = data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{path.name} is not UTF-8 (byte {error.start}); save it again with the encoding UTF-8"
        ) from None
    if not text.strip():
        raise UnreadableFile(f"{path.name} is empty; hand in the file with your kernel in it")
    if is_notebook(path):
        return _notebook_cells(path.name, text, allowance, steps)
    cell = _parsed(path.name, text)
    allowance.take(cell)
    return [cell]


def executed_cells(inputs: Sequence[str], steps: Mapping[str, int] = MappingProxyType({})) -> list[Cell]:
    """The cells that a running notebook has executed, named by their number: "cell [7]". Empty inputs are left out.

    steps: which of the notebook's functions which step asks for.
    """
    return [
        _of_a_notebook(f"cell [{number}]", source, steps)
        for number, source in enumerate(inputs)
        if source.strip() and len(source) <= MAX_CELL_CHARS
    ]


def _notebook_cells(name: str, text: str, allowance: Allowance, steps: Mapping[str, int]) -> list[Cell]:
    """The code cells of a notebook's JSON, which may hold anything in any place; cells are numbered from 1."""
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise UnreadableFile(f"{name} is nested too deeply for a notebook; save it again from Jupyter") from None
    except ValueError as error:
        reason = str(error).splitlines()[0][:120]
        raise UnreadableFile(f"{name} is not a Jupyter notebook ({reason}); save it again from Jupyter") from None
    found: list[Cell] = []
    for number, source in _code(name, notebook):
        if len(source) <= MAX_CELL_CHARS:
            place = f"{name} cell {number}"
            found.append(_left_out_of_python(place, source, steps) or _of_a_notebook(place, source, steps))
            allowance.take(found[-1])
    return found


def _code(name: str, notebook: Any) -> Iterator[tuple[int, str]]:
    """Number and text of each code cell, of format 4 and of the formats before it, whose worksheets hold the cells."""
    if not isinstance(notebook, dict):
        raise UnreadableFile(f"{name} is not a Jupyter notebook (no JSON object); save it again from Jupyter")
    cells = notebook.get("cells")
    worksheets = notebook.get("worksheets")
    if not isinstance(cells, list) and isinstance(worksheets, list):
        sheets = [sheet.get("cells") for sheet in worksheets if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list):
        raise UnreadableFile(f"{name} is not a Jupyter notebook (it has no list of cells); save it again from Jupyter")
    if len(cells) > MAX_CELLS:
        raise UnreadableFile(
            f"{name} holds {len(cells)} cells, the limit is {MAX_CELLS}; keep the cells that the kernel needs"
        )
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input"))
            if isinstance(source, list) and all(isinstance(line, str) for line in source):
                source = "".join(source)
            if isinstance(source, str):
                yield number, source


def _left_out_of_python(place: str, source: str, steps: Mapping[str, int]) -> Cell | None:
    """A cell with a Triton kernel under a cell magic that hands the text to something else: %%writefile, %%script."""
    if not (magic := _cell_magic(source)) or not re.search(r"^@(triton\.)?jit\b", source, re.MULTILINE):
        return None
    cell = Cell(place, source, None, steps=steps)
    error = f"{cell.at(1)}: {magic} makes this cell no Python of the notebook; delete that line, and save the notebook again"
    return replace(cell, error=error)


def _cell_magic(source: str) -> str:
    """The cell magic at the beginning of a cell that keeps its text from being run as Python: not %%time and the like."""
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")
    found = re.match(r"%%\w*", first)
    return found[0] if found and found[0] not in ("%%time", "%%timeit", "%%capture") else ""


def _of_a_notebook(place: str, source: str, steps: Mapping[str, int]) -> Cell:
    """A cell that is Python as it stands, or else without IPython's lines."""
    cell = _parsed(place, source, steps)
    return cell if cell.tree is not None else _parsed(place, _without_magics(source), steps)


MAGIC = re.compile(r"[%!?]|[\w.]+\s*\?{1,2}\s*$|[^=#'\"]+=\s*[%!]")
"""How IPython's own lines begin: %timeit f(), !ls, ?f, f?, and out = !ls."""


def _without_magics(source: str) -> str:
    """Blanks IPython's magics and shell lines; a cell magic other than %%time or %%timeit blanks the whole cell."""
    # what else Unicode calls a line end, Python does not
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if _cell_magic(source):
        return "\n" * max(0, len(lines) - 1)
    rows: list[str] = []
    depth = 0  # of open brackets, in which a leading % is Python's modulo
    for line in lines:
        stripped = line.lstrip()
        magic = MAGIC.match(stripped)
        # brackets of comments and strings are counted too, so that only an indented line is taken for what goes on in one
        continues = (depth > 0 and stripped != line) or (bool(rows) and rows[-1].endswith("\\"))
        # an indented block is made of a statement
        nothing = f"{line[: len(line) - len(stripped)]}pass" if stripped != line else ""
        rows.append(nothing if magic and not continues else line)
        depth += sum(rows[-1].count(bracket) for bracket in "([{") - sum(rows[-1].count(bracket) for bracket in ")]}")
    return "\n".join(rows)


def _long_numbers(source: str, tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Line and bits of the numbers that Python reads and may not write out again: thousands of hexadecimal digits."""
    for node in ast.walk(tree) if LONG_NUMBER.search(source) else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > LONG_DIGITS:
            yield node.lineno, node.value.bit_length()


FORM_FEED = re.compile(r"^[ \t\f]*\f", re.MULTILINE)
"""After one, Python counts a line's indentation from 0."""


def _parsed(place: str, source: str, steps: Mapping[str, int] | None = None) -> Cell:
    text = source.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace").decode()  # half characters are `?`
    cell = Cell(place, FORM_FEED.sub("", text).replace("\f", " "), None, steps=steps)
    try:
        with warnings.catch_warnings(action="ignore"):  # they speak of the student's text, to whoever grades it
            tree = parse(cell.source)
            with suppress(
                RecursionError, MemoryError, ValueError
            ):  # which is told of the statement, where a kernel needs it
                symtable(cell.source, "<cell>", "exec")  # Python's scoping rules: one parameter twice, say
        for line, bits in _long_numbers(cell.source, tree):
            return replace(cell, error=f"{cell.at(line)}: a number of {bits} bits; a kernel's have at most 64")
        return replace(cell, tree=tree)
    except SyntaxError as error:
        return replace(cell, error=syntax_sentence(cell, error))
    except (RecursionError, MemoryError):
        return replace(cell, error=f"{cell.at(1).holder}: nested too deeply for Python to read")
    except ValueError as error:
        return replace(cell, error=f"{cell.at(1).holder}: {error}")
