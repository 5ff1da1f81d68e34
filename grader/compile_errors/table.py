"""messages.toml: what Triton's compiler and Python say of a kernel, what it means, and what to do next."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Message(NamedTuple):
    """What a student reads of a mistake: what was found and expected, and what to do next."""

    cause: str
    next_step: str


Said = tuple[str, str, str]
"""A pattern or text, the cause, the next step."""


@cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("messages.toml").read_text(encoding="utf-8"))


def compile_errors() -> list[dict[str, Any]]:
    """The rows on what Triton's compiler says."""
    return list(_file()["error"])


def rows(name: str) -> list[Said]:
    """The rows of a smaller table: "syntax", "operator" or "pasted"."""
    return [(found, cause, step) for found, cause, step in _file()[name]]


def instead() -> Mapping[str, str]:
    """Names of Python, NumPy and torch that students bring along, and how a kernel says it."""
    return _file()["instead"]  # type: ignore[no-any-return]


def example(call: str) -> str:
    """How a function of Triton is called."""
    return str(_file()["example"].get(call, "add it to the call"))


def import_of(name: str) -> str | None:
    """The import that gives a name its value, if it is a module's."""
    found = _file()["import"].get(name)
    return None if found is None else str(found)


def construct(kind: str) -> Message:
    """About syntax that Triton does not compile, by the name of its `ast` class."""
    fallback = f"a kernel cannot contain this kind of Python ({kind})", "write it with assignments, if, for and while"
    return Message(*_file()["construct"].get(kind, fallback))
