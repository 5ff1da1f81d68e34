"""Which files make Gradescope's archive? The grader and two scripts: no solution and no notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.authoring import archive
from grader.classroom.gradescope.autograder import SETTINGS
from grader.classroom.gradescope.results import HIDDEN_BY_DEFAULT, Visibility
from grader.classroom.secrets_file import NAME

HERE = Path(__file__).parent
SCRIPTS = ("setup.sh", "run_autograder")
PROJECT = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")


def write_archive(root: Path, out: Path, labs: Sequence[str], hidden: Visibility = HIDDEN_BY_DEFAULT,
                  secrets: Path | None = None) -> list[str]:  # fmt: skip
    """Writes the zip archive from the repository at `root` and returns its members' names.

    Equal files give an equal archive. Raises OSError for what cannot be read or written.
    """
    settings = f"labs = [{', '.join(repr(lab) for lab in labs)}]\nhidden = {hidden!r}\n".replace("'", '"')
    members = {name: (HERE / name).read_bytes() for name in SCRIPTS}
    members |= {name: (root / name).read_bytes() for name in PROJECT}
    members |= {str(path.relative_to(root)): path.read_bytes() for path in _package(root)}
    members[SETTINGS] = settings.encode()
    if secrets:
        members[NAME] = secrets.read_bytes()
    archive.write_archive(out, members, SCRIPTS)
    return sorted(members)


def _package(root: Path) -> Iterator[Path]:
    """The files of the package grader."""
    for path in sorted((root / "grader").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            yield path
