"""Which files make Gradescope's archive, and Classroom 50's bundle? The grader and its scripts: no solution and no notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.authoring import archive
from grader.classroom.gradescope.container import SETTINGS
from grader.classroom.gradescope.results import HIDDEN_BY_DEFAULT, Visibility
from grader.classroom.secrets_file import NAME

HERE = Path(__file__).parent
SCRIPTS = ("setup.sh", "run_autograder")
ENTRY = "autograder.py"
PROJECT = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")


def write_archive(
    root: Path, out: Path, labs: Sequence[str], hidden: Visibility = HIDDEN_BY_DEFAULT, secrets: Path | None = None
) -> list[str]:
    """Writes the zip archive from the repository at `root` and returns its members' names.

    Equal files give an equal archive. Raises OSError for what cannot be read or written.
    """
    members = _grader(root, labs, hidden) | {name: (HERE / name).read_bytes() for name in SCRIPTS}
    if secrets:
        members[NAME] = secrets.read_bytes()
    archive.write_archive(out, members, SCRIPTS)
    return sorted(members)


def write_classroom50(root: Path, out: Path, labs: Sequence[str]) -> list[str]:
    """Writes the bundle of an assignment of Classroom 50 and returns its members' names. Anybody can fetch it: no secrets are in it."""
    entry = HERE.parent / "classroom50" / ENTRY
    members = _grader(root, labs, HIDDEN_BY_DEFAULT) | {ENTRY: entry.read_bytes()}
    archive.write_archive(out, members)
    return sorted(members)


def _grader(root: Path, labs: Sequence[str], hidden: Visibility) -> dict[str, bytes]:
    """The project's files, the package grader, and the settings."""
    settings = f"labs = [{', '.join(repr(lab) for lab in labs)}]\nhidden = {hidden!r}\n".replace("'", '"')
    members = {name: (root / name).read_bytes() for name in PROJECT}
    for path in sorted((root / "grader").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            members[str(path.relative_to(root))] = path.read_bytes()
    return members | {SETTINGS: settings.encode()}
