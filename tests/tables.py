"""Rows of parametrised tests, from the TOML beside their module: data is not code."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def table(path: str) -> dict[str, Any]:
    """What the TOML beside a test's module holds. path: the module's `__file__`."""
    return tomllib.loads(Path(path).with_suffix(".toml").read_text(encoding="utf-8"))


def each_row(test: Callable[..., None]) -> Any:
    """Decorates a test: it is run for each entry of the table of its name, without `test_`, with the entry's values as arguments.

    An entry's `id` names its run. A value that an entry lacks and another has is None.
    """
    path = sys.modules[test.__module__].__file__
    assert path is not None
    entries = table(path)[test.__name__.removeprefix("test_")]
    keys = list(dict.fromkeys(key for entry in entries for key in entry if key != "id"))
    values = [[entry.get(key) for key in keys] for entry in entries]
    return pytest.mark.parametrize(keys, values, ids=[entry.get("id") for entry in entries])(test)
