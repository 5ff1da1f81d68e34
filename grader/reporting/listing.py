"""A kernel's source for a page: numbered lines of coloured tokens, all of them or the six around one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String

from grader.model import KernelSource

EXCERPT, ABOVE = 6, 4
MAX_LINES = 1200
MAX_LINE_LENGTH = 300
MAX_CHARACTERS = 60_000
"""A page holds this much of a kernel; the largest one anybody wrote for these labs has a fifth of it."""


@dataclass(frozen=True)
class Token:
    """A piece of a line; `kind` is a CSS class, empty for plain text."""

    kind: str
    text: str


@dataclass(frozen=True)
class Line:
    """One line of the module. `place` is set on the first line from another cell or file; `number` is the student's."""

    number: int
    anchor: str
    tokens: tuple[Token, ...]
    place: str = ""


@dataclass(frozen=True)
class Listing:
    """A whole kernel. `cut`: how many lines were left out at the end."""

    lines: tuple[Line, ...]
    cut: int = 0

    def around(self, at: int) -> tuple[Line, ...]:
        """Six lines with line `at` of the module, counted from 1, as the fourth where there are so many above."""
        first = max(0, min(at - ABOVE, len(self.lines) - EXCERPT))
        return self.lines[first : first + EXCERPT]

    def anchor(self, at: int) -> str:
        """The anchor of a line of the module; "" for one that was left out."""
        return self.lines[at - 1].anchor if at <= len(self.lines) else ""


def listing(source: KernelSource, lab_id: str) -> Listing:
    """The lab's source."""
    everything = source.module.rstrip().split("\n")
    shown = _within_limits(everything)
    tokens = _tokens("\n".join(shown))
    lines, place = [], ""
    for at in range(len(shown)):
        where = source.lines[at] if at < len(source.lines) else None
        here = where.place if where else source.path.name
        lines.append(
            Line(
                number=where.line if where else at + 1,
                anchor=f"{lab_id}-{at + 1}",
                tokens=tokens[at] if at < len(tokens) else (),
                place=here if here != place else "",
            )
        )
        place = here
    return Listing(tuple(lines), len(everything) - len(shown))


def _within_limits(texts: Sequence[str]) -> list[str]:
    shown, room = [], MAX_CHARACTERS
    for text in texts[:MAX_LINES]:
        shown.append(text if len(text) <= MAX_LINE_LENGTH else f"{text[:MAX_LINE_LENGTH]} ...")
        room -= len(shown[-1])
        if room < 0:
            break
    return shown


def _tokens(text: str) -> list[tuple[Token, ...]]:
    """Lines of tokens."""
    classes = (
        (Comment, "c"),
        (String, "s"),
        (Number, "n"),
        (Keyword, "k"),
        (Name.Builtin, "b"),
        (Name.Decorator, "d"),
        (Name.Function, "f"),
    )
    lines: list[list[Token]] = [[]]
    for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        name = next((name for group, name in classes if kind in group), "")
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part and lines[-1] and lines[-1][-1].kind == name:
                lines[-1][-1] = Token(name, lines[-1][-1].text + part)
            elif part:
                lines[-1].append(Token(name, part))
    return [tuple(line) for line in lines]
