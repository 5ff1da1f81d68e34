"""The templates of pages: what they show is escaped, and a name that has no value is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.reporting.terminal import number
from grader.reporting.text import page_value


def templates(folder: Path, finalize: Callable[[Any], Any] = page_value, **filters: Callable[..., Any]) -> Environment:
    """The templates of a folder. finalize: what becomes of each value before it is escaped; filters: those beside `number`."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, **filters}
    return environment
