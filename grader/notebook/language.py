"""In which language a notebook answers: Chinese in notebooks/zh, as far as zh.toml goes; elsewhere English, as it is written."""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("zh.toml")
PLACE = "GRADER_LANGUAGE"
"""Environment variable that names the language, zh or en, wherever the notebook lies."""


def chinese() -> bool:
    """Whether this notebook is a Chinese one."""
    return os.environ.get(PLACE, Path.cwd().name) == "zh"


def translated(text: str) -> str:
    """The text as the notebook's reader gets it, line by line; a line that the table does not know stays as it is."""
    return "\n".join(map(_line, text.split("\n"))) if chinese() else text


def _line(text: str) -> str:
    for pattern, template in _table():
        if found := pattern.fullmatch(text):
            parts = {name: _line(part) if name.endswith("_") else part for name, part in found.groupdict().items()}
            return template.format(**parts)
    return text


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of English lines and what stands for them in Chinese: those that frame another sentence first, then longer ones, which say
    more."""
    said: dict[str, str] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["say"]
    ordered = sorted(said.items(), key=lambda pair: ("_}" not in pair[0], -len(re.sub(r"\{\w+\}", "", pair[0]))))
    return tuple(
        (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(english))), text) for english, text in ordered
    )
