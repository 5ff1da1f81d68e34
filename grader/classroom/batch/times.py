"""When was it handed in? Times from a platform's files and from the file system; where no zone is named it is UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.reading.files import opened_plain


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


def newest(files: Iterable[Path]) -> datetime | None:
    """When the last of some files was changed."""
    return max((time for file in files if (time := modified(file))), default=None)
