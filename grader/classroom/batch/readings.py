"""What was read in a hand-in, kept by its bytes: a class whose rubric changed is not read again."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from grader.classroom.batch.accounts import everything_below
from grader.classroom.batch.journal import Journal, code_digest
from grader.classroom.batch.tasks import Content
from grader.model import Refusal
from grader.plain_files import UnreadableFile, opened_plain

MAX_BYTES = 16 << 20
"""A larger hand-in is read each time."""

HERE = Path()
"""Stands for where the hand-in lies: an archive is unpacked into another folder in every run."""


def reading_key(path: Path, lab_ids: tuple[str, ...]) -> str | None:
    """The digest of all that reading depends on: labs, all of the code (a line is named by its step), names and bytes.

    None for what is not plain files, or is too large.
    """
    found = hashlib.sha256(json.dumps([code_digest(), lab_ids, path.name]).encode("utf-8", "surrogateescape"))
    left = MAX_BYTES
    whole = path.is_dir() and not path.is_symlink()
    files = [one.path for one in everything_below(path) if one.path and one.path.name != ".git"] if whole else [path]
    try:
        for one in files:
            with opened_plain(one) as file:
                data = file.read(left + 1)
            if (left := left - len(data)) < 0:
                return None
            name = os.fsencode(one.relative_to(path))
            found.update(b"%d %d %s" % (len(name), len(data), name) + data)
    except (OSError, UnreadableFile):
        return None
    return found.hexdigest()


def recall(journal: Journal, key: str, path: Path) -> Content | Refusal | None:
    """What was read there before, as if it had been read at `path`; None when that is not known."""
    content = journal.recall(key, Content | Refusal)
    return _moved(content, path, HERE) if content else None


def remember(journal: Journal, key: str, path: Path, content: Content | Refusal) -> None:
    """Keeps what was read at `path`; not what failed for a reason outside of it."""
    if isinstance(content, Content) or content.status != "not_graded":
        journal.remember(key, _moved(content, HERE, path), Content | Refusal)


def _moved(content: Content | Refusal, to: Path, since: Path) -> Content | Refusal:
    """The same, found below `to` instead of `since`."""

    def moved(one: Any) -> Any:
        return one if one.path is None else replace(one, path=to / one.path.relative_to(since))

    if isinstance(content, Refusal):
        return cast(Refusal, moved(content))
    labs = {lab_id: moved(one) for lab_id, one in content.submission.labs.items()}
    return replace(content, submission=moved(replace(content.submission, labs=labs)))
