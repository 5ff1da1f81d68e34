"""A kernel's source for a page: numbered lines of coloured tokens, all of them or the six around one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from grader.model import KernelSource
from grader.reporting.text import prose

EXCERPT, ABOVE = 6, 4
MAX_LINES = 1200
MAX_LINE_LENGTH = 300
MAX_CHARACTERS = 60_000
"""A page holds this much of a kernel; the largest one anybody wrote for these labs has a fifth of it."""


@dataclass(frozen=True)
class Line:
    """One line of the module; `text` is markup. `place` is set on the first line from another cell or file: what it is a line of;
    `number` is the student's."""

    number: int
    anchor: str
    text: Markup
    place: str = ""


@dataclass(frozen=True)
class Listing:
    """A whole kernel. `cut`: how many lines were left out at the end."""

    lines: tuple[Line, ...]
    cut: int = 0

    def around(self, at: int) -> tuple[Line, ...]:
        """Six lines with line `at` of the module, counted from 1, as the fourth where there are so many above; fewer where what follows
        or precedes was written elsewhere."""
        first = max(0, min(at - ABOVE, len(self.lines) - EXCERPT))
        shown = self.lines[first : first + EXCERPT]
        apart = [n for n, (a, b) in enumerate(pairwise(shown), 1) if b.place or b.number != a.number + 1]
        begin = max((n for n in apart if n < at - first), default=0)
        return shown[begin : min((n for n in apart if n >= at - first), default=EXCERPT)]


def listing(source: KernelSource, lab_id: str) -> Listing:
    """The lab's source."""
    everything = source.module.rstrip().split("\n")
    shown = _within_limits(everything)
    coloured = highlight(prose("\n".join(shown)), PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).split("\n")
    lines, place = [], ""
    for at in range(len(shown)):
        where = source.lines[at] if at < len(source.lines) else None
        here, holder = (where.place, where.holder) if where else (source.path.name, source.path.name)
        lines.append(
            Line(
                number=where.line if where else at + 1,
                anchor=f"{lab_id}-{at + 1}",
                text=Markup(coloured[at]),
                place=holder.replace("`", "") if here != place else "",
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
