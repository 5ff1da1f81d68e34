"""From notebooks/source/*.py to notebooks: the instructor's with solutions, the students' without, in nbgrader's format.

A source is in jupytext's percent format. What a cell is stands in its `# %%` line:

    solution="ID"              students write it; solutions/ markers inside are stripped
    test="ID" [points=N]       locked; worth points when it says so
    answer="ID" points=N       a written answer, graded by hand; the text is the model answer

In a code cell `# include PATH` or `# include PATH: A .. B` brings a file, or what lies from the definition of A to
that of B. In a text cell `@ladder LAB: SHAPE ...` brings a table of the ladder's times in the benchmark record.
`@bench{EXPRESSION:FORMAT}` becomes a number of that record: `bytes_per_second` and `fp16_per_second` of its GPU,
`time_us(LAB, SHAPE)`, `cublas_us(LAB, SHAPE)` and `ratio(LAB, SHAPE)` of the solution (of another contestant: its name as a third
argument), or arithmetic on them.
jupytext is needed to call this module, not to import it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, v4, writes

from grader.authoring.benchmarks import SHOWN, Entry, UnusableRecord, load
from grader.authoring.release import BEGIN, END, BadMarkers, strip_solution

SOURCE = Path("notebooks") / "source"
INCLUDE = re.compile(r"^# include (?P<path>\S+?)(?:: (?P<first>\w+) \.\. (?P<last>\w+))?$", re.MULTILINE)
LADDER = re.compile(r"^@ladder (?P<lab>\w+): (?P<shapes>.+)$", re.MULTILINE)
BENCH = re.compile(r"@bench\{(?P<expression>[^:{}]+):(?P<format>[.\w]+)\}")
UNANSWERED = "YOUR ANSWER HERE"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ROLES = ("solution", "test", "answer")


class MissingJupytext(ImportError):
    """jupytext is not installed; the message says how to get it."""


class BadSource(ValueError):
    """A notebook's source that cannot be turned into one; the message names file and reason."""


def sources(root: Path) -> list[Path]:
    """The sources of all notebooks of the repository at `root`."""
    return sorted((root / SOURCE).glob("*.py"))


def instructor_notebook(source: Path, root: Path) -> NotebookNode:
    """The notebook with its solutions. Raises BadSource, BadMarkers, MissingJupytext."""
    return _notebook(source, root, stripped=False)


def student_notebook(source: Path, root: Path) -> NotebookNode:
    """The notebook that students get. Raises BadSource, BadMarkers, MissingJupytext."""
    return _notebook(source, root, stripped=True)


def student_files(root: Path) -> dict[str, str]:
    """Name and text of every notebook in notebooks/."""
    return {f"{path.stem}.ipynb": writes(student_notebook(path, root)) + "\n" for path in sources(root)}


def _notebook(source: Path, root: Path, *, stripped: bool) -> NotebookNode:
    try:
        import jupytext
    except ImportError:
        raise MissingJupytext(
            "jupytext is not installed, and notebooks are made with it; run `pip install -e .[notebook]`"
        ) from None
    read = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent")
    cells, ids = [], set()
    for number, cell in enumerate(read.cells, start=1):
        name = f"{source.name} cell {number}"
        made = _cell(cell, name, root, stripped=stripped)
        base = made.metadata.get("nbgrader", {}).get("grade_id") or _digest(source.stem, cell.source)
        if base in ids:
            raise BadSource(f"{name} is the second one with the id {base}; give it another, or other words")
        ids.add(base)
        made["id"] = base
        cells.append(made)
    return v4.new_notebook(cells=cells, metadata=METADATA)


def _digest(stem: str, text: str) -> str:
    return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _cell(cell: Any, name: str, root: Path, *, stripped: bool) -> Any:
    metadata = {key: value for key, value in cell.metadata.items() if not key.startswith("lines_to_")}
    role = next((role for role in ROLES if role in metadata), None)
    grade_id, points = metadata.pop(role, None) if role else None, metadata.pop("points", None)
    if metadata or (points is not None and role in (None, "solution")):
        unknown = ", ".join([*metadata, *(["points"] if points is not None else [])])
        raise BadSource(f"{name} has {unknown}, expected one of {', '.join(ROLES)}, and points beside the last two")
    if cell.cell_type == "markdown":
        text = LADDER.sub(lambda match: ladder_table(root, match["lab"], match["shapes"].split()), cell.source)
        text = _measured(text, root, name)
        if role == "answer" and stripped:
            text = UNANSWERED
        return v4.new_markdown_cell(text, metadata=_metadata(role, grade_id, points, "markdown"))
    text = _measured(INCLUDE.sub(lambda match: _included(root, match, name), cell.source), root, name)
    if role != "solution" and (BEGIN in text or END in text):
        raise BadSource(f'{name} holds solution markers and is no solution cell; say solution="ID" in its first line')
    if role == "solution" and BEGIN not in text:
        raise BadSource(f"{name} is a solution cell without {BEGIN}; mark what students write")
    if stripped:
        text = strip_solution(text, name).rstrip("\n")
    return v4.new_code_cell(text, metadata=_metadata(role, grade_id, points, "code"))


def _metadata(role: str | None, grade_id: str | None, points: float | None, kind: str) -> dict[str, Any]:
    """Cell metadata by nbgrader's schema 3."""
    if role is None:
        return {}
    if (kind == "markdown") != (role == "answer") or (role == "answer" and points is None):
        raise BadSource(f"{grade_id}: answers are text and worth points, solutions and tests are code")
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
    kept = {"deletable": False, "editable": False} if role == "test" else {"deletable": False}
    return {**kept, "nbgrader": nbgrader}


def _included(root: Path, match: re.Match[str], name: str) -> str:
    path = root / match["path"]
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadSource(f"{name} includes {match['path']}, which cannot be read ({error.strerror})") from None
    if match["first"] is None:
        return text.strip("\n")
    places = [_span(text, match[key], f"{name} includes {match['path']}") for key in ("first", "last")]
    lines = text.splitlines()
    start, end = places[0][0] - 1, places[1][1]
    while start and lines[start - 1].startswith("#"):
        start -= 1
    if sum(line.strip() == BEGIN for line in lines[start:end]) > sum(line.strip() == END for line in lines[start:end]):
        raise BadSource(f"{name} includes {match['path']} up to a place inside a solution; end after its {END}")
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
        raise BadSource(f"{name} from or to {wanted}, which it does not define")
    return found[0][0], found[-1][1]


def _measured(text: str, root: Path, name: str) -> str:
    """The text with its `@bench{...}` worked out from the benchmark's record."""
    if "@bench{" not in text:
        return text
    try:
        record = load(root / SHOWN)
    except UnusableRecord as problem:
        raise BadSource(str(problem)) from None

    def entry(lab_id: str, shape: str, contestant: str) -> Entry:
        return next(one for one in record.timed(lab_id) if (one.contestant, one.shape) == (contestant, shape))

    known = {
        "bytes_per_second": record.bytes_per_second,
        "fp16_per_second": record.fp16_per_second,
        "log": math.log,
        "time_us": lambda lab_id, shape, contestant="solution": entry(lab_id, shape, contestant).time_us,
        "cublas_us": lambda lab_id, shape, contestant="solution": entry(lab_id, shape, contestant).cublas_us,
        "ratio": lambda lab_id, shape, contestant="solution": entry(lab_id, shape, contestant).ratio,
    }

    def number(match: re.Match[str]) -> str:
        try:
            return format(eval(match["expression"], {"__builtins__": {}}, known), match["format"])
        except (NameError, TypeError, ValueError, SyntaxError, StopIteration) as error:
            raise BadSource(f"{name} has {match[0]}, which cannot be worked out ({error!r}); see the record's entries") from None

    return BENCH.sub(number, text)


def ladder_table(root: Path, lab_id: str, shapes: list[str]) -> str:
    """The benchmark's times of a lab's ladder as a table in Markdown, with the GPU and versions they hold for.

    Raises BadSource when the benchmark's record cannot be read or lacks one of them.
    """
    try:
        record = load(root / SHOWN)
    except UnusableRecord as problem:
        raise BadSource(str(problem)) from None
    folder = root / "solutions" / "ladder"
    steps = [(f"ladder/{path.stem}", path) for path in sorted(folder.glob(f"{lab_id}_*.py"))]
    steps.append(("solution", root / "solutions" / f"{lab_id}.py"))
    times = {(entry.contestant, entry.shape): entry for entry in record.timed(lab_id)}
    missing = [f"{name} on {shape}" for name, _ in steps for shape in shapes if (name, shape) not in times]
    if missing:
        raise BadSource(f"{SHOWN} has no time of {missing[0]}; run `make bench` on its GPU")
    last = [times["solution", shape] for shape in shapes]
    rows = ["| | what changes | " + " | ".join(map(_shape, last)) + " |", "|---|---|" + "---:|" * len(shapes)]
    for number, (name, path) in enumerate(steps, start=1):
        idea = _idea(path) if path.parent == folder else "the last step, yours to find"
        entries = [times[name, shape] for shape in shapes]
        cells = [f"{entry.time_us:.1f} ({entry.ratio:.2f})" for entry in entries]
        rows.append(f"| {number} | {idea} | " + " | ".join(cells) + " |")
    rows.append("| | cuBLAS, dense fp16 | " + " | ".join(f"{entry.cublas_us:.1f}" for entry in last) + " |")
    where = (
        "Microseconds a launch and, in brackets, how many times as fast as cuBLAS fp16 in the same race; the time of "
        "cuBLAS itself moves by 5 % from race to race, and the last row is that of the last step's. "
        f"{record.gpu}, torch {record.versions['torch']}, triton {record.versions['triton']}, {record.date}."
    )
    return "\n".join([*rows, "", f"*{where}*"])


def _shape(entry: Entry) -> str:
    text = f"{entry.M} token{'s' if entry.M != 1 else ''}"
    return text if entry.sparsity is None else f"{text}, sparsity {entry.sparsity}"


def _idea(path: Path) -> str:
    """What a step of the ladder does: its docstring's first sentence, without lab and number."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.match(r"\w+, step \d+: (.+?)\.?$", text.splitlines()[0] if text else "")
    if found is None:
        raise BadMarkers(f"{path.name} does not begin with `LAB, step N: what it does.`; let its docstring say it")
    return found[1]
