"""When was it handed in? Times from a platform's files and from the file system; where no zone is named it is UTC."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.plain_files import opened_plain

GIT_SECONDS = 20.0
MAX_REFS_BYTES = 4 << 20
_GIT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
}


def timestamp(path: Path) -> datetime | None:
    """nbgrader's timestamp.txt, such as "2026-11-20 23:58:00.123456 UTC"; None without a readable one."""
    try:
        with opened_plain(path) as file:
            return moment(file.read(100).decode("utf-8"))
    except (OSError, ValueError):
        return None


def moment(value: Any) -> datetime | None:
    """A time from text or YAML; without a zone it is UTC."""
    if isinstance(value, str):
        text = re.sub(r"\s*(UTC|GMT|Z)$", "+00:00", value.strip())
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def modified(path: Path) -> datetime | None:
    """When a file was last changed."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):  # a file system keeps years that no calendar has
        return None


def committed(clone: Path) -> datetime | None:
    """When the newest commit of a clone was made, by its own clock; nothing of the clone's settings is read, which could run a program."""
    try:
        commit = _head(clone / ".git")
        with tempfile.TemporaryDirectory() as place:
            names = "sha256" if len(commit) == 64 else "sha1"
            _git("init", "-q", "--bare", f"--object-format={names}", place)
            objects = str((clone / ".git" / "objects").resolve())
            found = _git(f"--git-dir={place}", "cat-file", "commit", commit, GIT_OBJECT_DIRECTORY=objects)
        line = re.search(rb"^committer .* (\d{1,12}) [+-]\d{4}$", found.partition(b"\n\n")[0], re.MULTILINE)
        return datetime.fromtimestamp(int(line[1]), UTC) if line else None
    except (OSError, ValueError, OverflowError, subprocess.SubprocessError):
        return None


def _git(*arguments: str, **variables: str) -> bytes:
    """What git prints; variables: of its environment. Raises OSError or subprocess.SubprocessError."""
    command, environment = ["git", *arguments], {**_GIT, **variables}
    return subprocess.run(command, check=True, timeout=GIT_SECONDS, capture_output=True, env=environment).stdout


def _head(folder: Path) -> str:
    """The commit that is checked out. Raises OSError or ValueError where there is none."""
    head = _text(folder / "HEAD")
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ")
        if not re.fullmatch(r"refs/[\w./-]{1,200}", name) or ".." in name:
            raise ValueError(f"{name} is not a branch")
        try:
            head = _text(folder / name)
        except OSError:
            packed = _text(folder / "packed-refs", MAX_REFS_BYTES)
            head = next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {name}")), "")
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", head):
        raise ValueError(f"{head[:20]} is not a commit")
    return head


def _text(path: Path, most: int = 300) -> str:
    with opened_plain(path) as file:
        return file.read(most).decode("utf-8", "replace").strip()
