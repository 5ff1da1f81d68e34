"""In a notebook: worklog() writes worklog.md beside it, a row for each predicted step towards speed; the student's own columns stay."""

from __future__ import annotations

import re

from grader.compile_errors.excerpt import columns_of
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
    """The lines of the log: rows that are there have what is known now, the others come last in the table, whose columns are aligned."""
    heads = [_cells(line) for line in (HEAD, translated(HEAD))]
    if not any(_cells(line) in heads for line in lines):
        lines = [*lines, *([""] if lines and lines[-1] else []), translated(HEAD), "|---" * COLUMNS + "|", ""]
    begin = next(at for at, line in enumerate(lines) if _cells(line) in heads)
    end = next((at for at in range(begin, len(lines)) if not lines[at].startswith("|")), len(lines))
    there = {cells[0] for cells in map(_cells, lines) if cells}
    new = [f"| {claim} |{' |' * (COLUMNS - 1)}" for claim in rows if claim not in there]
    return _aligned([*lines[:end], *new, *lines[end:]], range(begin, end + len(new)), rows)


def _aligned(lines: list[str], table: range, rows: dict[str, Story]) -> list[str]:
    """The lines with what is known of each step; those of the table, and rows of steps elsewhere, in columns."""
    whole = {at: cells for at, cells in enumerate(map(_cells, lines)) if len(cells) == COLUMNS}
    whole = {at: cells for at, cells in whole.items() if at in table or cells[0] in rows}
    for cells in whole.values():  # one with a | of its own is left to the student
        if story := rows.get(cells[0]):
            _fill(cells, story)
    texts = [cells for cells in whole.values() if not _is_rule(cells)]
    widths = [max(3, *(columns_of(cells[at]) for cells in texts)) for at in range(COLUMNS)]
    return [_line(whole[at], widths) if at in whole else line for at, line in enumerate(lines)]


def _cells(line: str) -> list[str]:
    """The cells of a row of a table as they are written there, without the spaces around them; none of another line."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _is_rule(cells: list[str]) -> bool:
    return all(re.fullmatch(r":?-+:?", cell) for cell in cells)


def _line(cells: list[str], widths: list[int]) -> str:
    if _is_rule(cells):
        return f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return (
        f"| {' | '.join(cell + ' ' * (width - columns_of(cell)) for cell, width in zip(cells, widths, strict=True))} |"
    )


def _fill(cells: list[str], story: Story) -> None:
    """Writes what is known of a step into its row: what was measured stays where predictions.json was removed."""
    before, found = story.prediction, story.found
    assert before.value is not None
    later = f"; later {', '.join(map(shown, story.later))}" if story.later else ""
    cells[1] = f"{shown(before.value)} ({before.when}){later}"
    numbers = " → ".join(shown(one.found) for one in (found[:1] + found[1:][-1:]) if one.found is not None)
    if found:
        seen = re.sub(r"(?<!\\)\|", r"\\|", " ".join(found[-1].seen.split()))
        cells[3] = f"{numbers} ({seen})"
