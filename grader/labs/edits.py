"""A mistake is an edit of a right text, `edits = [{ find, replace }]`, in mistakes.toml, slips.toml and files of kernels."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


class BadEdit(ValueError):
    """An edit that cannot be made; the message says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Edit:
    """A text that occurs once in a right kernel or step, and what takes its place."""

    find: str
    replace: str


def read_edits(listed: Iterable[Any]) -> tuple[Edit, ...]:
    """The edits of an entry. Raises BadEdit."""
    edits = list(listed)
    for edit in edits:
        if (
            not isinstance(edit, dict)
            or set(edit) != {"find", "replace"}
            or not all(isinstance(one, str) for one in edit.values())
        ):
            raise BadEdit(f"the edit {edit!r}, expected {{ find = text, replace = text }}")
    return tuple(Edit(**edit) for edit in edits)


def edited(text: str, edits: Sequence[Edit], name: str) -> str:
    """The text, called `name`, with its edits, one after the other. Raises BadEdit where one does not find its place once."""
    for edit in edits:
        count = text.count(edit.find)
        if count != 1:
            more = (
                "give more of the lines around it"
                if count
                else "look at the text as it is now, edits before this one included"
            )
            raise BadEdit(f"{edit.find!r} is {count} times in {name}, expected once; {more}")
        text = text.replace(edit.find, edit.replace)
    return text


def kernel_text(name: str, root: Path) -> str:
    """The text of a kernel: a file by its path under root, or FILE.toml:NAME, an entry with its `text` or with `edits` of its `base`.

    Raises BadEdit, also where there is no such kernel.
    """
    file, _, entry = name.partition(":")
    if not (root / file).is_file():
        raise BadEdit(
            f"there is no file {file!r}, expected a kernel by its path in this repository; correct `base` or `file`"
        )
    if not entry:
        return (root / file).read_text(encoding="utf-8")
    listed = _kernels(root / file)
    if entry not in listed:
        raise BadEdit(f"there is no kernel {entry!r} in {file}, expected the name of one; correct `base` or `file`")
    kernel = listed[entry]
    if "text" in kernel:
        return str(kernel["text"])
    return edited(kernel_text(kernel["base"], root), read_edits(kernel["edits"]), kernel["base"])


@cache
def _kernels(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The [[kernel]] entries of a file by their names."""
    return {entry["name"]: entry for entry in tomllib.loads(path.read_text(encoding="utf-8"))["kernel"]}
