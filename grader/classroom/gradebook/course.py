"""From this repository to an nbgrader course: configuration, source notebooks, release, gradebook.db."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from nbformat import writes

from grader.authoring.notebooks import instructor_notebook, sources
from grader.authoring.record_tables import Language
from grader.classroom.gradebook import ASSIGNMENT, BONUS
from grader.labs import all_labs
from grader.reporting.atomic import write_whole
from grader.unusable import Unusable

CONFIG = "nbgrader_config.py"
TEMPLATE = Path(__file__).parent / "nbgrader_config.py.txt"


def make_course(root: Path, folder: Path, assignment: str = ASSIGNMENT, language: Language = "en") -> list[Path]:
    """Makes or refreshes the course in `folder` from the repository at `root`, and returns what was written.

    The notebooks of bonus labs are an assignment of their own, whose name ends in BONUS.
    Cells have the same ids in every language, so that a notebook of another language is graded all the same.
    A configuration that is there stays as it is, and so do submissions and scores. Raises Unusable.
    """
    if importlib.util.find_spec("nbgrader") is None:
        raise Unusable("nbgrader is not installed; run `make course`, or `pip install -e .[course]`")
    if not assignment.replace("_", "").replace("-", "").isalnum():
        raise Unusable(f"{assignment!r} is not a valid name for an assignment; use letters, digits, - and _")
    found = sources(root)
    if not found:
        raise Unusable(f"{root} has no notebooks/source/*.py; run this in the repository's root")
    bonus = [path for path in found if path.stem in all_labs() and all_labs()[path.stem].bonus]
    parts = {assignment: [path for path in found if path not in bonus]} | ({assignment + BONUS: bonus} if bonus else {})
    written = []
    for name, paths in parts.items():
        place = folder / "source" / name
        place.mkdir(parents=True, exist_ok=True)
        for path in paths:
            notebook = place / f"{path.stem}.ipynb"
            write_whole(notebook, writes(instructor_notebook(path, root, language)) + "\n")
            written.append(notebook)
    config = folder / CONFIG
    if not config.exists():
        write_whole(config, TEMPLATE.read_text(encoding="utf-8").format(root=str(root.resolve())))
        written.append(config)
    for name in parts:
        _generate(folder, name)
    return [*written, *(folder / "release" / name for name in parts), folder / "gradebook.db"]


def _generate(folder: Path, assignment: str) -> None:
    """Runs `nbgrader generate_assignment`, which makes the release and enters the assignment into gradebook.db.

    For a new database nbgrader calls `alembic` by its name, which lies beside this Python.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", assignment, "--create", "--force"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-5:]
        raise Unusable(f"nbgrader generate_assignment failed in {folder}: {' '.join(words)[-1500:]}")
