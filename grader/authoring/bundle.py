"""What do students get, and does any of it give a secret away? One archive of the files that are theirs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from grader.authoring.archive import write_archive
from grader.reporting.benchmarks import SHOWN
from grader.reporting.whole_models import SHOWN_MODELS
from grader.unusable import Unusable

DOCUMENTS = ("student", "language-models", "timing", "tolerance", "references", "benchmarks")
SINGLE = (
    *"Makefile LICENSE pyproject.toml constraints.txt .gitignore .dockerignore .devcontainer/devcontainer.json".split(),
    *(f"docs/{name}.md" for name in DOCUMENTS),
    *(path.as_posix() for path in (SHOWN, *SHOWN_MODELS.values())),
)
FOLDERS = {"assignment": "*.py", "notebooks": "**/*.ipynb", "grader": "**/*", "model": "**/*", "bench/figures": "*.svg"}
HANDOUTS = "notebooks/*.md"
OWN = Path("grader/authoring/handout")
"""What students get in place of the repository's own: a README, a Dockerfile, a workflow; laid out as in the archive."""
INSTRUCTORS = (
    "grader/classroom/",
    "grader/authoring/",
    *(f"grader/cli/{name}_commands.py" for name in ("class", "platform", "release", "server")),
)
"""Parts of grader/ that grade classes and write labs; `python -m grader` does without them."""
REVEALING = ("mistakes.toml", "slips.toml")
"""Wrong kernels and wrong steps as edits of right ones, which tell what is right. What slips give is for students."""


def student_files(root: Path) -> dict[str, bytes]:
    """Name and content of every file that students get."""
    paths = [root / name for name in SINGLE] + sorted(root.glob(HANDOUTS))
    for folder, pattern in FOLDERS.items():
        paths += sorted((root / folder).glob(pattern))
    paths = [path for path in paths if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & {*path.parts}]
    names = {str(path.relative_to(root)): path for path in paths}
    shared = {
        name: path for name, path in names.items() if not name.startswith(INSTRUCTORS) and path.name not in REVEALING
    }
    own = {str(path.relative_to(root / OWN)): path for path in sorted((root / OWN).rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in {**shared, **own}.items()}


def write_bundle(root: Path, out: Path, secrets: Path | None) -> int:
    """Writes the archive and returns how many files it holds. Equal files give an equal archive.

    Raises Unusable, and writes nothing, when a file holds what `secrets` hides, or the region of a solution.
    """
    files = student_files(root)
    for name, data in files.items():
        reason = _revealed(name, data, secrets)
        if reason:
            raise Unusable(f"{name} {reason}; students would get it, so nothing was written")
    write_archive(out, files)
    return len(files)


def _revealed(name: str, data: bytes, secrets: Path | None) -> str | None:
    """Why this file is not for students."""
    text = data.decode("utf-8", errors="replace")
    if name.startswith(("assignment/", "notebooks/")) and "### BEGIN SOLUTION" in text:
        return "holds a solution"
    if secrets is None:
        return None
    hidden = secrets.read_text(encoding="utf-8")
    if text.strip() == hidden.strip():
        return f"is {secrets.name} itself"
    seed = str(tomllib.loads(hidden).get("seed", ""))
    if len(seed) > 3 and re.search(rf"(?<!\d){seed}(?!\d)", text.replace("_", "")):
        return f"holds the seed of {secrets.name}"
    blocks = [block.strip() for block in hidden.split("[[case]]")[1:]]
    if any(block in text for block in blocks):
        return f"holds a hidden case of {secrets.name}"
    return None
