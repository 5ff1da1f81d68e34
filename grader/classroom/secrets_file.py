"""Which secrets count? Those of one file, found alike by a batch, the nbgrader course and Gradescope's autograder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.hidden_cases import Secrets, draw, load_secrets
from grader.labs import Lab
from grader.reporting.atomic import write_whole
from grader.unusable import Unusable

NAME = "secrets.toml"
REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLED = ("site-packages", "dist-packages")
"""What the folder is called instead where the grader was installed: an upgrade takes from there what it brought."""
VARIABLE = "GRADER_SECRETS"
"""Names another file for all of them; set and empty: there are no secrets, whatever lies there."""


@dataclass(frozen=True)
class SecretsInForce:
    """The secrets that count, None where there are none, and their file."""

    secrets: Secrets | None
    path: Path | None

    def labs(self, labs: Iterable[Lab]) -> list[Lab]:
        """The labs with their hidden cases."""
        return [self.secrets.lab(lab) if self.secrets else lab for lab in labs]

    def sentence(self, labs: Iterable[Lab]) -> str:
        """How many hidden cases these labs have, and from where: what every command says before it grades."""
        if not self.secrets or not self.path:
            return f"hidden cases: none, {_missing()}"
        counts = {lab.id: sum(lab_id == lab.id for lab_id, _ in self.secrets.cases) for lab in labs}
        each = {f"{count} per lab" for count in counts.values()}
        parts = sorted(each) if len(each) == 1 else [f"{lab_id} {count}" for lab_id, count in counts.items()]
        return f"hidden cases: {', '.join(parts)}, from {_short(self.path)}"


def place() -> Path | None:
    """Where the file lies, whether it is there or not; None where GRADER_SECRETS says that there is none, or is needed and not set."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return None if REPOSITORY.name in INSTALLED else REPOSITORY / NAME
    return Path(named).expanduser().absolute() if named else None


def secrets_in_force(named: Path | None = None, near: Path | None = None) -> SecretsInForce:
    """The secrets that count. named: a file that an option of the command names in place of it. near: a folder where one might be
    taken for it; an unlike file there is refused, because it would be ignored. Raises Unusable."""
    path = named or place()
    stray = near / NAME if near else None
    if named is None and stray is not None and os.path.lexists(stray) and not _alike(stray, path):
        raise Unusable(
            f"{stray.absolute()} is not read: the secrets of a batch, the nbgrader course and Gradescope are "
            f"{path or 'none'}; move it there, delete it, or set {VARIABLE} to its path for all three"
        )
    if path is None or (path == REPOSITORY / NAME and not os.path.lexists(path)):
        return SecretsInForce(None, None)
    return SecretsInForce(load_secrets(path), path)


def write_secrets(labs: Iterable[Lab]) -> Path:
    """Draws new secrets, writes them where everything finds them, readable by their owner alone, and returns the path.

    Raises Unusable where some are there already, and OSError.
    """
    path = place()
    if path is None:
        raise Unusable(f"no secrets are written, {_missing()}")
    if path.is_file() and path.read_bytes().strip():
        raise Unusable(
            f"{_short(path)} exists already, and new secrets would change marks; delete it first to draw new ones"
        )
    write_whole(path, draw(labs), 0o600)
    return path


def _missing() -> str:
    if path := place():
        return f"there is no {_short(path)} (`make secrets` writes one)"
    if VARIABLE in os.environ:
        return f"as {VARIABLE} is empty; unset it, or give it the path of the file"
    return f"as the grader is installed and has no repository; give {VARIABLE} the path of their file"


def _alike(stray: Path, path: Path | None) -> bool:
    """Whether the file that might be taken for the secrets is these, or has their text."""
    if path is None:
        return False
    try:
        return stray.absolute() == path or stray.read_bytes() == path.read_bytes()
    except OSError:
        return False


def _short(path: Path) -> str:
    """The path from here, where it lies below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
