"""A kernel's source for a page: numbered lines of coloured tokens, with notes where a message names the line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.compile_errors import headline
from grader.model import KernelSource, LabReport
from grader.reporting.distinct_findings import findings, is_named

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
class Note:
    """What a message says on a line; `test` names what it belongs to: the report's line, or which of several mistakes."""

    test: str
    text: str


@dataclass(frozen=True)
class Line:
    """One line of the module. `place` is set on the first line from another cell or file; `number` is the student's."""

    number: int
    anchor: str
    tokens: tuple[Token, ...]
    notes: tuple[Note, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Listing:
    """A whole kernel. `cut`: how many lines were left out at the end."""

    lines: tuple[Line, ...]
    cut: int = 0

    @property
    def marked(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.notes)


def listing(source: KernelSource, lab: LabReport) -> Listing:
    """The lab's source with the notes of its tests."""
    everything = source.module.rstrip().split("\n")
    shown = _within_limits(everything)
    tokens = _tokens("\n".join(shown))
    messages = _messages(lab)
    lines, place = [], ""
    for at in range(len(shown)):
        where = source.lines[at] if at < len(source.lines) else None
        number = where.line if where else at + 1
        here = where.place if where else source.path.name
        notes = tuple(_beside(note, str(where)) for note in messages if where and _names(note.text, str(where)))
        lines.append(
            Line(
                number=number,
                anchor=f"{lab.lab_id}-{at + 1}",
                tokens=tokens[at] if at < len(tokens) else (),
                notes=_distinct(notes),
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


def _messages(lab: LabReport) -> list[Note]:
    """Each sentence that may name a line: findings once, then what is said of single tests."""
    notes = [Note("", headline(lab.message))] if lab.message else []
    notes += [
        Note(f"{count} of {len(finding.sentences)}" if len(finding.sentences) > 1 else "", sentence)
        for finding in findings(lab.tests)
        for count, sentence in enumerate(finding.sentences, 1)
    ]
    for test in lab.tests:
        said = test.message.splitlines() if test.kind == "memory" else [headline(test.message)]
        if test.diagnosis and not is_named(test):
            said.append(headline(test.diagnosis))
        notes += [Note(test.name, text) for text in said]
    return notes


def _names(text: str, place: str) -> bool:
    """Whether a message names this very line: "line 2" is not "line 23"."""
    return re.search(rf"(?<!\w){re.escape(place)}(?!\d)", text) is not None


def _beside(note: Note, place: str) -> Note:
    """The note without its place in front, which is where it stands."""
    text = note.text.removeprefix(place)
    return replace(note, text=text.lstrip(":, ")) if text != note.text else note


def _distinct(notes: Sequence[Note]) -> tuple[Note, ...]:
    """The same sentence from several tests is one note."""
    first: dict[str, Note] = {}
    for note in notes:
        first.setdefault(note.text, note)
    return tuple(first.values())


def _tokens(text: str) -> list[tuple[Token, ...]]:
    """Lines of tokens. Plain lines when Pygments is not installed."""
    try:
        from pygments.lexers import PythonLexer
        from pygments.token import Comment, Keyword, Name, Number, String
    except ImportError:
        return [(Token("", line),) for line in text.split("\n")]
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
