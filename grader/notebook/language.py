"""In which language a notebook answers: Chinese in notebooks/zh, as far as zh.toml goes; elsewhere English, as it is written.

What only one notebook says stands in the zh.toml beside its steps and questions, what a package of the grader says in the one
there, the rest in the one here.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path

from grader.compile_errors.excerpt import INDENT

NAMED = re.compile(r"\{(\w+)\}")
GRADER, TABLE = Path(__file__).parents[1], "zh.toml"
PLACE = "GRADER_LANGUAGE"
"""Environment variable that names the language, zh or en, wherever the notebook lies."""


def chinese() -> bool:
    """Whether this notebook is a Chinese one."""
    return os.environ.get(PLACE, Path.cwd().name) == "zh"


def translated(text: str) -> str:
    """The text as the notebook's reader gets it, line by line; code and a line that the table does not know stay as they are."""
    return "\n".join(map(_line, text.split("\n"))) if chinese() else text


def _line(text: str) -> str:
    return text if text.startswith(INDENT) else min(_said(text), _without_stop(text))[-1]


def _without_stop(text: str) -> tuple[int, int, str]:
    """As `_said`, of a sentence whose full stop is not in its entry."""
    verbatim, left, said = _said(text.removesuffix("."))
    return (verbatim, left, f"{said}。") if text.endswith(".") and said != text[:-1] else _said(text)


@cache
def _said(text: str) -> tuple[int, int, str]:
    """A line in Chinese. First how much of it stays as it is, and how much its entry leaves open: the entry that says most is the one."""
    matches = ((found, chinese) for pattern, chinese in _table() if (found := pattern.fullmatch(text)))
    return min(
        (_filled(found.groupdict(), chinese) for found, chinese in matches), default=(len(text), len(text), text)
    )


def _filled(parts: dict[str, str], chinese: str) -> tuple[int, int, str]:
    said = {name: _said(part) if name.endswith("_") else (len(part), 0, part) for name, part in parts.items()}
    left = sum(verbatim for verbatim, _, _ in said.values())
    return left, sum(map(len, parts.values())), chinese.format(**{name: text for name, (_, _, text) in said.items()})


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of English lines and what stands for them in Chinese; of a sentence with advice also what is wrong alone, as it is told
    at first."""
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["say"] for path in GRADER.rglob(TABLE)]
    said = {english: text for table in tables for english, text in table.items()}
    for english, text in list(said.items()):
        fact, alone = english.partition("; ")[0], text.partition("；")[0]
        words = re.search(r"[a-z]{3}", NAMED.sub("", fact))  # not "{said_}" alone, which is every line
        if words and alone != text and set(NAMED.findall(fact)) == set(NAMED.findall(alone)):
            said.setdefault(fact, alone)
    return tuple((_pattern(english), text) for english, text in said.items())


def _pattern(english: str) -> re.Pattern[str]:
    """What an entry stands for; a name that it has twice is the same both times."""
    names: list[str] = []

    def part(found: re.Match[str]) -> str:
        names.append(found[1])
        return f"(?P<{found[1]}>.*?)" if names.count(found[1]) == 1 else f"(?P={found[1]})"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", part, re.escape(english)))
