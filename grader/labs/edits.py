"""A mistake is an edit: what a right text becomes by `edits = [{ find, replace }]`, as mistakes.toml and slips.toml list them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
