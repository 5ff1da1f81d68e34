"""One short paragraph about a place in the student's text: the line as it stands there, and a caret below it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Protocol

from grader.model import SourceLine

MAX_LINE = 76
"""Columns of the source line that are shown: with the indent it fits a terminal of 80."""

MAX_SENTENCE = 400
INDENT = "  "
NEXT = "Next: "
CUT_HEAD, CUT_TAIL = "... ", " ..."
"""Where a line is cut."""

Span = tuple[int, int | None, int | None, int | None]
"""Line, column, end line and end column, as `ast` counts them: lines from 1, columns in bytes (UTF-8) from 0, None when unknown."""


class Written(Protocol):
    """A run of the student's lines: what it is called, its text, and what its lines are called."""

    @property
    def place(self) -> str: ...

    @property
    def source(self) -> str: ...

    def at(self, line: int) -> SourceLine: ...


def paragraph(
    place: str, cause: str, next_step: str, *, source: str = "", span: Span | None = None, found: str = ""
) -> str:
    """The paragraph, of at most six lines; with the line of the source where the span begins, if there is one.

    found: what stood there, such as shapes and dtypes.
    """
    head = _one_line(cause)
    lines = [f"{place}: {head}" if place else head]
    lines += [f"{INDENT}{line}" for line in excerpt_at(source, span)] if span else []
    if found:
        lines.append(f"{INDENT}{_one_line(found)}")
    lines.append(f"{NEXT}{_one_line(next_step)}")
    return "\n".join(lines)


def excerpt_at(source: str, span: Span) -> list[str]:
    """The excerpt of the line where a span begins, with carets up to its end or the line's; nothing where there is no such line."""
    line, column, end_line, end_column = span
    lines = source.split("\n")
    text = lines[line - 1] if 1 <= line <= len(lines) else ""
    return excerpt(text, column, end_column if end_line in (line, None) else len(text.encode()))


def excerpt(text: str, column: int | None, end_column: int | None = None) -> list[str]:
    """The source line without its indentation, cut around the caret, and the caret's line where the column is known."""
    if not text.strip():
        return []
    start = _characters(text, column) if column is not None else None
    end = _characters(text, end_column) if end_column is not None else None
    body = text.replace("\t", " ").rstrip()
    indent = len(body) - len(body.lstrip())
    body = body[indent:]
    if start is None or not 0 <= start - indent <= len(body):
        return [body if columns_of(body) <= MAX_LINE else f"{body[: fitting(body, MAX_LINE - 4)]}{CUT_TAIL}"]
    first = start - indent
    length = max(1, min((end or 0) - indent, len(body)) - first)
    if columns_of(body) > MAX_LINE:
        room, before = MAX_LINE - len(CUT_HEAD + CUT_TAIL), body[first - 1 :: -1] if first else ""
        skipped = min(first - fitting(before, MAX_LINE // 3), len(body) - fitting(body[::-1], room))
        last = skipped + fitting(body[skipped:], room)
        head, tail = CUT_HEAD if skipped else "", CUT_TAIL if last < len(body) else ""
        body = head + body[skipped:last] + tail
        first += len(head) - skipped
        length = max(1, min(length, len(body) - len(tail) - first))
    return [body, " " * columns_of(body[:first]) + "^" * columns_of(body[first : first + length] or " ")]


def headline(message: str) -> str:
    """A paragraph in one line: where and what, then the next step. Other messages as they are."""
    first, *rest = message.split("\n")
    steps = [line.removeprefix(NEXT) for line in rest if line.startswith(NEXT)]
    return f"{first}; {steps[-1]}" if steps else message


@dataclass(frozen=True)
class Block:
    """A part of a message: running text, or lines whose columns matter."""

    text: str
    verbatim: bool


def blocks(message: str) -> list[Block]:
    """The message in parts, so that a page can show the source line and its caret in one width."""
    parts: list[Block] = []
    for line in message.split("\n"):
        verbatim = line.startswith(INDENT)
        if verbatim and parts and parts[-1].verbatim:
            parts[-1] = Block(f"{parts[-1].text}\n{line}", True)
        else:
            parts.append(Block(line, verbatim))
    return parts


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_SENTENCE else f"{words[: MAX_SENTENCE - 4]} ..."


def _characters(text: str, column: int) -> int:
    return len(text.encode()[: max(0, column)].decode(errors="ignore"))


def place_of_caret(text: str, shown: str, caret: str) -> int | None:
    """Which character of a line an excerpt's caret is under, from 0; None where the excerpt is of another line. shown, caret: its lines,
    without their indent."""
    at = fitting(shown, len(caret) - len(caret.lstrip()))
    head = len(CUT_HEAD) if shown.startswith(CUT_HEAD) else 0
    found = text.replace("\t", " ").find(shown[head:].removesuffix(CUT_TAIL))
    return None if found < 0 else found + at - head


def fitting(text: str, columns: int) -> int:
    """How many of the text's first characters fit into so many columns."""
    taken = 0
    for at, character in enumerate(text):
        taken += columns_of(character)
        if taken > columns:
            return at
    return len(text)


def columns_of(text: str) -> int:
    """Columns that a terminal gives the text: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
