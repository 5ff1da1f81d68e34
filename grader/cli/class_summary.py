"""What a batch says at its end: a few lines on the class, on who was asked for, and on what a human has to see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from grader.cli.arguments import errors

if TYPE_CHECKING:
    from rich.console import Console

    from grader.classroom.batch.accounts import Accounted
    from grader.classroom.batch.standing import Standing

LONGEST_REASON = 100
MOST_LINES = 10


def summary(found: Sequence[Standing], only: frozenset[str], out: Path, drawn: int, seconds: float) -> None:
    """The labs, who was asked for, and what a human has to see, in a few lines; the class's files have everybody."""
    from grader.classroom.batch.overview import Row, to_review
    from grader.reporting.text import Terminal

    console = Terminal(highlight=False)
    present = [standing for standing in found if not standing.absent]
    console.print(_labs_of(present))
    chosen = [one for one in present if only & {one.student, one.name, one.graded.hand_in.label}]
    _listed(console, [f"{_who(one)}: {_what(one)}" for one in chosen], out / "grades.csv")
    reasons = to_review([Row(one, "", ()) for one in present])
    if reasons:
        console.print("[yellow]Needs a look[/]:")
        _listed(
            console,
            [f"{_some_of([row.standing for row in rows])}: {_cut(reason)}" for reason, rows in reasons],
            out / "index.html",
        )
    absent = len({one.student for one in found} - {one.student for one in present})
    console.print(
        f"{_people(found)}{f', {absent} of them handed in nothing' if absent else ''}, {some(drawn, 'page')} drawn, "
        f"in {timedelta(seconds=round(seconds))}"
    )
    console.print(
        f"Class report: {escape(str(out / 'index.html'))} (with names; to show: projected.html)", soft_wrap=True
    )


def _labs_of(present: Sequence[Standing]) -> Table:
    """A line a lab: the median, and what became of how many."""
    from grader.classroom.batch.overview import in_numbers
    from grader.reporting.terminal import number

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for column in ("lab", "median", "of", "what became of it"):
        table.add_column(column, justify="right" if column in ("median", "of") else "left")
    for lab_id, median, most, statuses in in_numbers(present):
        table.add_row(
            lab_id, number(median), number(most), ", ".join(f"{count} {status}" for status, count in statuses)
        )
    return table


def _listed(console: Console, lines: Sequence[str], rest: Path) -> None:
    for line in lines[:MOST_LINES]:
        console.print(f"  {escape(line)}", soft_wrap=True)
    if len(lines) > MOST_LINES:
        console.print(f"  and {len(lines) - MOST_LINES} more, in {escape(str(rest))}", soft_wrap=True)


def _people(standings: Sequence[Standing]) -> str:
    """How many students, and for how many assignments if they are several: then a student has a mark for each."""
    students, assignments = {one.student for one in standings}, {one.assignment for one in standings}
    return some(len(students), "student") + (f" in {len(assignments)} assignments" if len(assignments) > 1 else "")


def _who(standing: Standing, *others: Standing) -> str:
    """A student, and the assignments where there are any."""
    from grader.reporting.text import name

    known = standing.name if standing.name == standing.student else f"{standing.name} ({standing.student})"
    return name(", ".join(filter(None, (known, *(one.assignment for one in (standing, *others))))))


def _some_of(standings: Sequence[Standing]) -> str:
    """One by name, more by their number."""
    one = len({standing.student for standing in standings}) == 1
    return _who(*standings) if one else f"{_people(standings)}, {_who(standings[0])} first"


def _what(standing: Standing) -> str:
    """A student's marks in a line."""
    from grader.classroom.batch.pages import statement

    stated = statement(standing)
    return "; ".join([*(f"{part} {points}" for part, points in stated.marks), *stated.steps])


def _cut(text: str) -> str:
    """What fits a line; the class report has all of it."""
    first = text.split("\n")[0]
    return first if len(first) <= LONGEST_REASON else f"{first[:LONGEST_REASON].rsplit(' ', 1)[0]} ..."


def say_what_became_of(files: Sequence[Accounted], out: Path) -> None:
    """The count of all files that came in, and the first of those that are nobody's."""
    from grader.classroom.batch.accounts import tally
    from grader.reporting.text import name

    errors.print(escape(tally(files)), soft_wrap=True)
    nobodys = [one for one in files if one.reason and not one.student]
    _listed(errors, [f"{one.fate}: {name(one.file)}: {name(one.reason)}" for one in nobodys], out / "files.csv")


def some(count: int, noun: str) -> str:
    """A number and its noun: "1 student", "2 students"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
