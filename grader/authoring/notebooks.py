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
that of B. In a text cell `@ladder LAB: SHAPE ...` brings a table of the ladder's times in the benchmark record, and
`@speed LAB: STEP` what is to be predicted in a step towards speed and what the ladder's times say of it.
`@bench{EXPRESSION:FORMAT}` becomes a number of that record: `bytes_per_second` and `fp16_per_second` of its GPU,
`time_us(LAB, SHAPE)`, `cublas_us(LAB, SHAPE)` and `ratio(LAB, SHAPE)` of the solution (of another contestant: its name as a third
argument), or arithmetic on them. It is evaluated as Python: sources are the repository's own, like any of its modules.
jupytext is needed to call this module, not to import it.
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from nbformat import NotebookNode, v4, writes

from grader.authoring.hosted import NoRepository, badges, installing, repository_url
from grader.authoring.release import BEGIN, END, BadMarkers, strip_solution
from grader.labs import speed_steps_of
from grader.reporting.benchmarks import SHOWN, Entry, UnusableRecord, load

Language = Literal["en", "zh"]
SOURCE = Path("notebooks") / "source"
FOLDERS: dict[Language, str] = {"en": "", "zh": "zh/"}
"""Where a language's notebooks lie below notebooks/."""
INCLUDE = re.compile(r"^# include (?P<path>\S+?)(?:: (?P<first>\w+) \.\. (?P<last>\w+))?$", re.MULTILINE)
SPEED = re.compile(r"^@speed (?P<lab>\w+): (?P<step>\w+)$", re.MULTILINE)
LADDER = re.compile(r"^@ladder (?P<lab>\w+): (?P<shapes>.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)\s]+)\)")
WRAPPED = re.compile(r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])")
"""Where a line of Chinese goes on in the next one; Markdown would show a space there."""

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


def instructor_notebook(source: Path, root: Path, language: Language = "en") -> NotebookNode:
    """The notebook with its solutions. Raises BadSource, BadMarkers, MissingJupytext."""
    return _notebook(source, root, language, stripped=False)


def student_notebook(source: Path, root: Path, language: Language = "en") -> NotebookNode:
    """The notebook that students get. Raises BadSource, BadMarkers, MissingJupytext."""
    return _notebook(source, root, language, stripped=True)


def student_files(root: Path) -> dict[str, str]:
    """Path below notebooks/ and text of every notebook, in every language."""
    return {
        f"{folder}{path.stem}.ipynb": writes(student_notebook(path, root, language)) + "\n"
        for language, folder in FOLDERS.items()
        for path in sources(root)
    }


def untranslated(source: Path) -> list[str]:
    """The first line of every text cell of a source that has no Chinese twin. Raises BadSource, MissingJupytext."""
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
        raise MissingJupytext(
            "jupytext is not installed, and notebooks are made with it; run `pip install -e .[notebook]`"
        ) from None
    cells = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent").cells
    for at, cell in enumerate(cells):
        language = cell.metadata.get("lang")
        if language is None:
            after = cells[at + 1] if at + 1 < len(cells) else None
            yield at + 1, cell, after if after is not None and "lang" in after.metadata else None
        elif (
            language != "zh" or _own(cell) != {"lang": "zh"} or not at
            or any(c.cell_type != "markdown" for c in cells[at - 1 : at + 1]) or "lang" in cells[at - 1].metadata
        ):  # fmt: skip
            raise BadSource(
                f'{source.name} cell {at + 1} has lang="{language}"; expected [markdown] lang="zh" and nothing else, right below '
                "the English text that it translates"
            )


def _notebook(source: Path, root: Path, language: Language, *, stripped: bool) -> NotebookNode:
    cells: list[Any] = []
    ids: set[str] = set()
    for number, cell, twin in _pairs(source):
        name = f"{source.name} cell {number}"
        base = _role_of(cell)[1] or _digest(source.stem, cell.source)
        if base in ids:
            raise BadSource(f"{name} is the second one with the id {base}; give it another, or other words")
        ids.add(base)
        text = WRAPPED.sub("", twin.source) if twin is not None and language == "zh" else cell.source
        made = _cell(cell, text, name, root, language, stripped=stripped)
        made["id"] = base
        cells.append(made)
    try:
        _make_hosted(cells, source.stem, root, language)
    except NoRepository as problem:
        raise BadSource(str(problem)) from None
    return v4.new_notebook(cells=cells, metadata=METADATA)


def _make_hosted(cells: list[Any], stem: str, root: Path, language: Language) -> None:
    """Adds the badges below the title, and above the first code cell the one that installs the lab where it is not there."""
    repository = repository_url(root)
    if cells and cells[0].cell_type == "markdown":
        title, _, rest = cells[0].source.partition("\n")
        row = badges(repository, f"notebooks/{FOLDERS[language]}{stem}.ipynb")
        cells[0].source = f"{title}\n\n{row}\n{rest}".rstrip("\n")
    first = next((at for at, cell in enumerate(cells) if cell.cell_type == "code"), None)
    if first is not None:
        cell = v4.new_code_cell(installing(repository, root))
        cell["id"] = f"{stem}-install"
        cells.insert(first, cell)


def _digest(stem: str, text: str) -> str:
    return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _role_of(cell: Any) -> tuple[str | None, str | None]:
    """What a cell is, and its id."""
    role = next((role for role in ROLES if role in cell.metadata), None)
    return role, cell.metadata[role] if role else None


def _own(cell: Any) -> dict[str, Any]:
    """A cell's metadata without jupytext's."""
    return {key: value for key, value in cell.metadata.items() if not key.startswith("lines_to_")}


def _cell(cell: Any, text: str, name: str, root: Path, language: Language, *, stripped: bool) -> Any:
    """A cell of the notebook, from the one of the source and its text in the notebook's language."""
    metadata = _own(cell)
    role, grade_id = _role_of(cell)
    if role:
        metadata.pop(role)
    points = metadata.pop("points", None)
    if metadata or (points is not None and role in (None, "solution")):
        unknown = ", ".join([*metadata, *(["points"] if points is not None else [])])
        raise BadSource(f"{name} has {unknown}, expected one of {', '.join(ROLES)}, and points beside the last two")
    if cell.cell_type == "markdown":
        text = LADDER.sub(lambda match: ladder_table(root, match["lab"], match["shapes"].split(), language), text)
        text = SPEED.sub(lambda match: speed_text(root, match["lab"], match["step"], name), text)
        text = _measured(text, root, name)
        text = LINK.sub(lambda match: f"]({_linked(match['target'], language)})", text)
        if role == "answer" and stripped:
            text = UNANSWERED
        return v4.new_markdown_cell(text, metadata=_metadata(role, grade_id, points, "markdown"))
    text = _measured(INCLUDE.sub(lambda match: _included(root, match, name), text), root, name)
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


def _linked(target: str, language: Language) -> str:
    """A link written as from notebooks/, from where the notebook lies; other notebooks lie beside it."""
    return target if target.partition("#")[0].endswith(".ipynb") else "../" * FOLDERS[language].count("/") + target


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


def ladder_table(root: Path, lab_id: str, shapes: list[str], language: Language = "en") -> str:
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
    words = LADDER_WORDS[language]
    last = [times["solution", shape] for shape in shapes]
    head = " | ".join(_shape(entry, language) for entry in last)
    rows = [f"| | {words['changes']} | {head} |", "|---|---|" + "---:|" * len(shapes)]
    for number, (name, path) in enumerate(steps, start=1):
        idea = _idea(path) if path.parent == folder else words["last"]
        entries = [times[name, shape] for shape in shapes]
        cells = [f"{entry.time_us:.1f} ({entry.ratio:.2f})" for entry in entries]
        rows.append(f"| {number} | {idea} | " + " | ".join(cells) + " |")
    rows.append(f"| | {words['cublas']} | " + " | ".join(f"{entry.cublas_us:.1f}" for entry in last) + " |")
    versions = f"{record.gpu}, torch {record.versions['torch']}, triton {record.versions['triton']}, {record.date}"
    return "\n".join([*rows, "", f"*{words['legend'].format(versions)}*"])


LADDER_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "changes": "what changes", "last": "the last step, yours to find", "cublas": "cuBLAS, dense fp16",
        "tokens": "{} tokens", "token": "{} token", "sparsity": "{}, sparsity {}",
        "legend": "Microseconds a launch and, in brackets, how many times as fast as cuBLAS fp16 in the same race; the time of "
        "cuBLAS itself moves by 5 % from race to race, and the last row is that of the last step's. {}.",
    },
    "zh": {
        "changes": "改动", "last": "最后一步，留给你来找", "cublas": "cuBLAS，稠密 fp16",
        "tokens": "{} 个 token", "token": "{} 个 token", "sparsity": "{}，稀疏度 {}",
        "legend": "每次启动的微秒数；括号内是同一轮计时中相对 cuBLAS fp16 的倍数。"
        "cuBLAS 自身的时间在各轮之间浮动 5 %，最后一行取自最后一步那一轮。{}。",
    },
}  # fmt: skip


def _shape(entry: Entry, language: Language = "en") -> str:
    words = LADDER_WORDS[language]
    text = words["tokens" if entry.M != 1 else "token"].format(entry.M)
    return text if entry.sparsity is None else words["sparsity"].format(text, entry.sparsity)


def speed_text(root: Path, lab_id: str, step_name: str, name: str) -> str:
    """What to predict in a step towards speed, and the times before and after it in the benchmark's record, in Markdown.

    A lab whose ladder was never raced has no times, and the text says so. Raises BadSource when there is no such step, and when the
    record cannot be read or lacks a time of a ladder that it has.
    """
    step = speed_steps_of(lab_id).get(step_name)
    if step is None:
        raise BadSource(f"{name} names the step {step_name} of {lab_id}, which grader/labs/{lab_id}/speed_steps.py does not have")
    try:
        record = load(root / SHOWN)
    except UnusableRecord as problem:
        raise BadSource(str(problem)) from None
    if not record.timed(lab_id, "ladder"):
        return f"**Predict:** {step.question}\n\n*The ladder's times before and after this step were not measured yet.*"
    times = {(entry.contestant, entry.shape): entry for entry in record.timed(lab_id)}
    parts = []
    for shape in step.shapes:
        rungs = [rung if rung == "solution" else f"ladder/{rung}" for rung in step.rungs]
        missing = [rung for rung in rungs if (rung, shape) not in times]
        if missing:
            raise BadSource(f"{SHOWN} has no time of {missing[0]} on {shape}; run `make bench` on its GPU")
        before, after = (times[rung, shape] for rung in rungs)
        parts.append(f"{_shape(after)}: {before.time_us:.1f} to {after.time_us:.1f} us")
    same = [other.name for other in speed_steps_of(lab_id).values() if other.rungs == step.rungs and other is not step]
    with_others = f" together with {' and '.join(f'`{other}`' for other in same)}" if same else ""
    last = ", and with what else the last row of the table has" if step.rungs[1] == "solution" else ""
    return (
        f"**Predict:** {step.question}\n\n*The ladder's times before and after this step{with_others}{last}, on an {record.gpu}: "
        f"{'; '.join(parts)}.*"
    )




def _idea(path: Path) -> str:
    """What a step of the ladder does: its docstring's first sentence, without lab and number."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    found = re.match(r"\w+, step \d+: (.+?)\.?$", text.splitlines()[0] if text else "")
    if found is None:
        raise BadMarkers(f"{path.name} does not begin with `LAB, step N: what it does.`; let its docstring say it")
    return found[1]
