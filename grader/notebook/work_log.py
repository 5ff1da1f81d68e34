"""In a notebook: worklog() writes worklog.md beside it, a row for each predicted step towards speed; the student's own columns stay."""

from __future__ import annotations

import re

from grader.labs import all_labs, speed_steps_of
from grader.labs.speed_step import shown
from grader.notebook.cells import NotYet, display
from grader.notebook.language import translated
from grader.notebook.predicting import Story, place, stories
from grader.notebook.speeding import claim_of
from grader.reporting.atomic import write_whole
from grader.reporting.compact import Remark

FILE = "worklog.md"
HEAD = "| step | prediction, before | change, one | measurement, after | what follows, or why you stopped |"
COLUMNS = 5
EMPTY = ("# Work log", "", HEAD, "|---" * COLUMNS + "|", "", "Tools that I asked, and for what:", "")


def worklog() -> None:
    """Writes the predictions and measurements of steps towards speed to worklog.md, and leaves everything else there as it is."""
    path, predicted = place().with_name(FILE), stories()
    known = {claim_of(lab_id, name) for lab_id in all_labs() for name in speed_steps_of(lab_id)}
    rows = {claim: story for claim, story in predicted.items() if claim in known}
    if not rows:
        raise NotYet("There is nothing to log yet: predict a step towards speed first.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else list(map(translated, EMPTY))
        write_whole(path, "\n".join(_updated(lines, rows)))
    except (OSError, ValueError) as error:
        raise NotYet(f"{path} cannot be read and written ({error}).") from None
    text = (
        f"{FILE} has a row for each step that you predicted. "
        "Fill in what you changed, and what follows: these two columns stay, the others are written anew."
    )
    display([Remark(text, "dim")])


def _updated(lines: list[str], rows: dict[str, Story]) -> list[str]:
    """The lines of the log: rows that are there have what is known now, the others come last in the table."""
    for at, line in enumerate(lines):
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        story = rows.pop(cells[0].strip(), None) if cells else None
        if story is not None and len(cells) == COLUMNS:  # one with a | of its own is left to the student
            lines[at] = _row(cells[0].strip(), story, cells[2], cells[4], cells[3].strip())
    if translated(HEAD) not in lines:
        lines = [*lines, *([""] if lines and lines[-1] else []), translated(HEAD), "|---" * COLUMNS + "|", ""]
    begin = lines.index(translated(HEAD))
    end = next((at for at in range(begin, len(lines)) if not lines[at].startswith("|")), len(lines))
    return [*lines[:end], *(_row(claim, story, " ", " ") for claim, story in rows.items()), *lines[end:]]


def _row(claim: str, story: Story, change: str, follows: str, measured: str = "") -> str:
    before, found = story.prediction, story.found
    assert before.value is not None
    later = f"; later {', '.join(map(shown, story.later))}" if story.later else ""
    numbers = " → ".join(shown(one.found) for one in (found[:1] + found[1:][-1:]) if one.found is not None)
    measured = (
        f"{numbers} ({found[-1].seen})" if found else measured
    )  # what was found stays where predictions.json was removed
    return f"| {claim} | {shown(before.value)} ({before.when}){later} |{change}| {measured} |{follows}|"
