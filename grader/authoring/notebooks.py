"""From notebooks/source/*.py to notebooks: the instructor's with solutions, the students' without, in nbgrader's format.

A source is in jupytext's percent format and holds a notebook in every language. What a cell is stands in its `# %%` line:

    solution="ID"              students write it; solutions/ markers inside are stripped
    test="ID" [points=N]       locked; worth points when it says so
    answer="ID" points=N       a written answer, graded by hand; the text is the model answer
    lang="zh"                  a text cell in Chinese, in place of the text or answer right above it

notebooks/NAME.ipynb is in English, notebooks/zh/NAME.ipynb in Chinese wherever there is a Chinese twin; code, ids and points
are the same. Links in a text are written as from notebooks/. Below a notebook's title come the badges, and above its first
code cell the one that installs the lab on a hosted notebook (`grader/authoring/hosted.py`).

In a code cell `# include PATH` or `# include PATH: A .. B` brings a file, or what lies from the definition of A to
that of B. What a cell takes from the benchmark's record, as `@ladder`, `@speed` and `@bench`, is in `grader/authoring/record_tables.py`.
jupytext is needed to call this module, not to import it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, v4, writes

from grader.authoring.hosted import badges, installing, repository_url
from grader.authoring.record_tables import Language, with_measurements
from grader.authoring.release import BEGIN, END, strip_solution
from grader.unusable import Unusable

SOURCE = Path("notebooks") / "source"
FOLDERS: dict[Language, str] = {"en": "", "zh": "zh/"}
"""Where a language's notebooks lie below notebooks/."""
INCLUDE = re.compile(r"^# include (?P<path>\S+?)(?:: (?P<first>\w+) \.\. (?P<last>\w+))?$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)\s]+)\)")
WRAPPED = re.compile(
    r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])"
    r"|(?<=[\u3000-\u303f\uff00-\uffef])\n(?=[A-Za-z`“]|\*(?! )|\$(?!\$)|\d+(?![\d.]))"
)
"""Where a line of Chinese goes on in the next one; Markdown would show a space there. Behind Chinese punctuation whatever follows is
meant, save for what begins a block of its own."""

UNANSWERED = "YOUR ANSWER HERE"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ROLES = ("solution", "test", "answer")


@dataclass(frozen=True)
class Edition:
    """Which notebook is made of a source: of the repository at `root`, in a language, with its solutions or stripped of them."""

    root: Path
    language: Language
    stripped: bool


def sources(root: Path) -> list[Path]:
    """The sources of all notebooks of the repository at `root`."""
    return sorted((root / SOURCE).glob("*.py"))


def instructor_notebook(source: Path, root: Path, language: Language = "en") -> NotebookNode:
    """The notebook with its solutions. Raises Unusable."""
    return _notebook(source, Edition(root, language, stripped=False))


def student_notebook(source: Path, root: Path, language: Language = "en") -> NotebookNode:
    """The notebook that students get. Raises Unusable."""
    return _notebook(source, Edition(root, language, stripped=True))


def student_files(root: Path) -> dict[str, str]:
    """Path below notebooks/ and text of every notebook, in every language."""
    return {
        f"{folder}{path.stem}.ipynb": writes(student_notebook(path, root, language)) + "\n"
        for language, folder in FOLDERS.items()
        for path in sources(root)
    }


def untranslated(source: Path) -> list[str]:
    """The first line of every text cell of a source that has no Chinese twin. Raises Unusable."""
    return [
        cell.source.splitlines()[0]
        for _, cell, twin in _pairs(source)
        if twin is None and cell.cell_type == "markdown" and cell.source.strip()
    ]


def _pairs(source: Path) -> Iterator[tuple[int, Any, Any]]:
    """Number, cell and Chinese twin (or None) of every cell that a source has in English."""
    try:
        import jupytext
    except ImportError:
        raise Unusable(
            "jupytext is not installed, and notebooks are made with it; run `pip install -e .[notebook]`"
        ) from None
    cells = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent").cells
    for at, cell in enumerate(cells):
        language = cell.metadata.get("lang")
        if language is None:
            after = cells[at + 1] if at + 1 < len(cells) else None
            yield at + 1, cell, after if after is not None and "lang" in after.metadata else None
        elif (
            _own(cell) != {"lang": "zh"}
            or not at
            or any(c.cell_type != "markdown" for c in cells[at - 1 : at + 1])
            or "lang" in cells[at - 1].metadata
        ):
            raise Unusable(
                f'{source.name} cell {at + 1} has lang="{language}"; expected [markdown] lang="zh" and nothing else, right below '
                "the English text that it translates"
            )


def _notebook(source: Path, edition: Edition) -> NotebookNode:
    cells: list[Any] = []
    ids: set[str] = set()
    for number, cell, twin in _pairs(source):
        name = f"{source.name} cell {number}"
        base = _role_of(cell)[1] or f"{source.stem}-{hashlib.sha256(cell.source.encode()).hexdigest()[:8]}"
        if base in ids:
            raise Unusable(f"{name} is the second one with the id {base}; give it another, or other words")
        ids.add(base)
        text = WRAPPED.sub("", twin.source) if twin is not None and edition.language == "zh" else cell.source
        made = _cell(cell, text, name, "en" if twin is None else edition.language, edition)
        made["id"] = base
        cells.append(made)
    _make_hosted(cells, source.stem, edition)
    return v4.new_notebook(cells=cells, metadata=METADATA)


def _make_hosted(cells: list[Any], stem: str, edition: Edition) -> None:
    """Adds the badges below the title, and above the first code cell the one that installs the lab where it is not there."""
    repository = repository_url(edition.root)
    if cells and cells[0].cell_type == "markdown":
        title, _, rest = cells[0].source.partition("\n")
        row = badges(repository, f"notebooks/{FOLDERS[edition.language]}{stem}.ipynb")
        cells[0].source = f"{title}\n\n{row}\n{rest}".rstrip("\n")
    first = next((at for at, cell in enumerate(cells) if cell.cell_type == "code"), None)
    if first is not None:
        cell = v4.new_code_cell(installing(repository, edition.root))
        cell["id"] = f"{stem}-install"
        cells.insert(first, cell)


def _role_of(cell: Any) -> tuple[str | None, str | None]:
    """What a cell is, and its id."""
    role = next((role for role in ROLES if role in cell.metadata), None)
    return role, cell.metadata[role] if role else None


def _own(cell: Any) -> dict[str, Any]:
    """A cell's metadata without jupytext's."""
    return {key: value for key, value in cell.metadata.items() if not key.startswith("lines_to_")}


def _cell(cell: Any, text: str, name: str, spoken: Language, edition: Edition) -> Any:
    """A cell of the notebook, from the one of the source and its text. spoken: the text's language."""
    metadata = _own(cell)
    role, grade_id = _role_of(cell)
    if role:
        metadata.pop(role)
    points = metadata.pop("points", None)
    if metadata or (points is not None and role in (None, "solution")):
        unknown = ", ".join([*metadata, *(["points"] if points is not None else [])])
        raise Unusable(f"{name} has {unknown}, expected one of {', '.join(ROLES)}, and points beside the last two")
    if cell.cell_type == "markdown":
        text = with_measurements(text, edition.root, name, spoken)
        text = LINK.sub(lambda match: f"]({_linked(match['target'], edition.language)})", text)
        if role == "answer" and edition.stripped:
            text = UNANSWERED
        return v4.new_markdown_cell(text, metadata=_metadata(role, grade_id, points, "markdown"))
    text = with_measurements(
        INCLUDE.sub(lambda match: _included(edition.root, match, name), text), edition.root, name, spoken
    )
    if role != "solution" and (BEGIN in text or END in text):
        raise Unusable(f'{name} holds solution markers and is not a solution cell; say solution="ID" in its first line')
    if role == "solution" and BEGIN not in text:
        raise Unusable(f"{name} is a solution cell without {BEGIN}; mark what students write")
    if edition.stripped:
        text = strip_solution(text, name).rstrip("\n")
    return v4.new_code_cell(text, metadata=_metadata(role, grade_id, points, "code"))


def _metadata(role: str | None, grade_id: str | None, points: float | None, kind: str) -> dict[str, Any]:
    """Cell metadata by nbgrader's schema 3."""
    if role is None:
        return {}
    if (kind == "markdown") != (role == "answer") or (role == "answer" and points is None):
        raise Unusable(f"{grade_id}: answers are text and worth points, solutions and tests are code")
    nbgrader: dict[str, Any] = {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": role == "test",
        "schema_version": 3,
        "solution": role in ("solution", "answer"),
        "task": False,
    }
    if points is not None:
        nbgrader["points"] = points
    metadata = {"deletable": False, "editable": False} if role == "test" else {"deletable": False}
    return {**metadata, "nbgrader": nbgrader}


def _linked(target: str, language: Language) -> str:
    """A link written as from notebooks/, from where the notebook lies; other notebooks lie beside it."""
    return target if target.partition("#")[0].endswith(".ipynb") else "../" * FOLDERS[language].count("/") + target


def _included(root: Path, match: re.Match[str], name: str) -> str:
    path = root / match["path"]
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Unusable(f"{name} includes {match['path']}, which cannot be read ({error.strerror})") from None
    if match["first"] is None:
        return text.strip("\n")
    places = [_span(text, match[key], f"{name} includes {match['path']}") for key in ("first", "last")]
    lines = text.splitlines()
    start, end = places[0][0] - 1, places[1][1]
    while start and lines[start - 1].startswith("#"):
        start -= 1
    if sum(line.strip() == BEGIN for line in lines[start:end]) > sum(line.strip() == END for line in lines[start:end]):
        raise Unusable(f"{name} includes {match['path']} up to a place inside a solution; end after its {END}")
    return "\n".join(lines[start:end])


def _span(text: str, wanted: str, name: str) -> tuple[int, int]:
    """First line of the first and last line of the last top-level statement that binds a name."""
    found = []
    for node in ast.parse(text).body:
        bound = {getattr(node, "name", None)}
        bound |= {target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)}
        if wanted in bound:
            decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
            found.append((min([node.lineno, *decorators]), node.end_lineno or node.lineno))
    if not found:
        raise Unusable(f"{name} from or to {wanted}, which it does not define")
    return found[0][0], found[-1][1]
