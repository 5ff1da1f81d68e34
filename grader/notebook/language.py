"""In which language a notebook answers: Chinese in notebooks/zh, as far as zh.toml goes; elsewhere English, as it is written.

What only one notebook says stands in the zh.toml beside its steps and questions, the rest in the one here.
"""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path

GRADER, TABLE = Path(__file__).parents[1], "zh.toml"
PLACE = "GRADER_LANGUAGE"
"""Environment variable that names the language, zh or en, wherever the notebook lies."""


def chinese() -> bool:
    """Whether this notebook is a Chinese one."""
    return os.environ.get(PLACE, Path.cwd().name) == "zh"


def translated(text: str) -> str:
    """The text as the notebook's reader gets it, line by line; a line that the table does not know stays as it is."""
    return "\n".join(map(_line, text.split("\n"))) if chinese() else text


def _line(text: str) -> str:
    matches = [(found, chinese) for pattern, chinese in _table() if (found := pattern.fullmatch(text))]
    if not matches:
        return text
    found, template = min(matches, key=lambda match: _left_open(match[0]))
    return template.format(
        **{name: _line(part) if name.endswith("_") else part for name, part in found.groupdict().items()}
    )


def _left_open(found: re.Match[str]) -> tuple[int, int]:
    """How much of a line an entry leaves open: what stays as it is, and what there is in all. The entry that says most is the one."""
    parts = found.groupdict().items()
    return sum(len(part) for name, part in parts if not name.endswith("_")), sum(len(part) for _, part in parts)


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of English lines and what stands for them in Chinese."""
    said = [
        pair for path in GRADER.rglob(TABLE) for pair in tomllib.loads(path.read_text(encoding="utf-8"))["say"].items()
    ]
    return tuple(
        (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(english))), text) for english, text in said
    )
