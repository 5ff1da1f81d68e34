"""What a sandbox said of an error, checked: text of bounded length, line and column as numbers or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 600
MAX_ITEMS = 200


@dataclass(frozen=True)
class Fault:
    """An error in a sandbox. Lines count from 1 in the kernel's module, columns are bytes from 0.

    values: (text, type) of the operands and names at the place, such as ("w", "int8 [32, 64]"); scope: names that had
    a value there; callers: lines of the calls of jit helpers that led there.
    """

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    values: tuple[tuple[str, str], ...] = ()
    scope: tuple[str, ...] = ()
    callers: tuple[int, ...] = ()


def fault_of(header: Mapping[str, Any]) -> Fault:
    """The fault in an answer's header; what is no number or no text there is left out."""
    values = [
        (_text(pair[0]), _text(pair[1]))
        for pair in _items(header.get("values"))
        if isinstance(pair, list) and len(pair) == 2
    ]
    numbers = {name: _number(header.get(name)) for name in ("line", "column", "end_line", "end_column")}
    return Fault(
        kind=_text(header.get("error")),
        message=_text(header.get("message")),
        values=tuple(values),
        scope=tuple(_text(name) for name in _items(header.get("scope"))),
        callers=tuple(line for line in map(_number, _items(header.get("callers"))) if line is not None),
        **numbers,
    )


def _items(value: Any) -> list[Any]:
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return " ".join(str("" if value is None else value)[: 4 * MAX_TEXT].split())[:MAX_TEXT]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 30 else None
