"""The class's grades as files that other programs read: CSV, JSON lines, JUnit XML."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, get_args
from xml.etree import ElementTree

from grader.classroom.batch.accounts import Accounted
from grader.classroom.batch.marks import Part
from grader.classroom.batch.platforms import Platform
from grader.classroom.batch.standing import Graded, Standing
from grader.model import LabReport
from grader.reporting.atomic import write_whole
from grader.reporting.document import document
from grader.reporting.junit import junit
from grader.reporting.text import cell, json_text
from grader.unusable import Unusable

PARTS: tuple[Part, ...] = get_args(Part)
TITLED_TWICE = "--column names a column of several assignments {!r}, and an import would overwrite marks; choose one with --assignment"


class Column(NamedTuple):
    """What a gradebook has a column for: an assignment's kernels, its questions, or its bonus labs, which count on top."""

    assignment: str
    part: Part


@dataclass(frozen=True)
class Titles:
    """What the instructor calls the gradebook's columns, by part."""

    given: Mapping[Part, str] = field(default_factory=dict)

    def of(self, column: Column) -> str:
        """A part without a title of its own is named after the title for the kernels, less Canvas's number behind it."""
        base = re.sub(r"\s*\(\d+\)$", "", self.given["kernels"]) if "kernels" in self.given else column.assignment
        return self.given.get(column.part, base if column.part == "kernels" else f"{base} ({column.part})")


def write_exports(
    out: Path, standings: Sequence[Standing], titles: Titles | None = None, files: Sequence[Accounted] = ()
) -> None:
    """Writes grades.csv, canvas.csv, moodle.csv, files.csv, grades.jsonl and junit.xml into `out`.

    Raises Unusable where titles that the instructor gave would stand over the columns of two assignments.
    """
    named = [titles.of(column) for column in _table(standings)[0]] if titles is not None and titles.given else []
    if twice := [title for title, count in Counter(named).items() if count > 1]:
        raise Unusable(TITLED_TWICE.format(twice[0]))
    reports = [replace(one.graded.report, submission=one.key.removesuffix("/")) for one in standings if not one.absent]
    texts = {
        "grades.csv": grades_csv(standings),
        "canvas.csv": canvas_csv(standings, titles),
        "moodle.csv": moodle_csv(standings, titles),
        "files.csv": _csv(["file", "fate", "student", "reason"], [[*asdict(one).values()] for one in files]),
        "grades.jsonl": grades_jsonl(standings),
        "junit.xml": junit(*reports),
    }
    for name, text in texts.items():
        write_whole(out / name, text)


def rehearse(graded: Graded) -> None:
    """Raises whatever writing this report and its marked answers would raise, so that it costs one student and not the class's files."""
    json_text(document(graded.report))
    json_text(_questions(graded))
    ElementTree.fromstring(junit(graded.report))


GRADES: Mapping[str, Callable[[Standing], object]] = {
    "student": lambda one: one.student,
    "name": lambda one: one.name,
    "email": lambda one: (one.person.email if one.person else "") or one.graded.hand_in.email,
    "section": lambda one: one.person.section if one.person else "",
    "assignment": lambda one: one.assignment,
    "points": lambda one: _of("kernels", one)[0],
    "max_points": lambda one: _of("kernels", one)[1],
    "points_before_lateness": lambda one: _rounded(one.mark.earned),
    "days_late": lambda one: None if one.absent else one.mark.days_late,
    "extension_days": lambda one: one.mark.extension_days or None,
    "submitted": lambda one: one.mark.handed_in and one.mark.handed_in.isoformat(),
    "override": lambda one: _rounded(one.mark.override),
    "reason": lambda one: one.mark.reason,
    "bonus_points": lambda one: _of("bonus", one)[0],
    "bonus_max_points": lambda one: _of("bonus", one)[1],
    "question_points": lambda one: _of("questions", one)[0],
    "question_max_points": lambda one: _of("questions", one)[1],
    "review": lambda one: (
        "nothing was handed in" if one.absent else "; ".join(reason.split("\n")[0] for reason in one.review)
    ),
}
"""The columns of grades.csv; those of each lab follow."""
IN_BOTH = "student name assignment submitted points override reason bonus_points question_points".split()
"""Those that grades.jsonl has, too."""


def _of(part: Part, one: Standing) -> tuple[float | None, float | None]:
    """The points of a part, and the most that are possible; both None where it has no column."""
    points, possible = one.parts.get(part, (None, None))
    return _rounded(points), _rounded(possible)


def grades_csv(standings: Sequence[Standing]) -> str:
    """Everything in one table, a row a student and assignment."""
    labs = dict.fromkeys(lab for standing in standings for lab in standing.labs)
    header = [*GRADES, *(f"{lab}_{part}" for lab in labs for part in ("correctness", "speed", "status"))]
    rows = [
        [*(grade(one) for grade in GRADES.values()), *(field for lab in labs for field in _lab(one.labs.get(lab)))]
        for one in standings
    ]
    return _csv(header, rows)


def _lab(report: LabReport | None) -> list[object]:
    if report is None or report.status == "not_graded":
        return [None, None, report and report.status]
    return [_rounded(report.correctness_points), _rounded(report.speed_points), report.status]


class GradebookLine(NamedTuple):
    """A student's line in a gradebook: a standing of theirs, the platform's number for them, and what they have in each column."""

    one: Standing
    number: str
    points: list[float | None]


def _table(standings: Sequence[Standing], platform: Platform = "") -> tuple[dict[Column, float], list[GradebookLine]]:
    """The columns in order, each with the most that anybody could have there, and the rows. platform: where the gradebook is."""
    columns, points = dict[Column, float](), dict[tuple[str, Column], float | None]()
    numbers, first = dict[str, str](), dict[str, Standing]()
    for one in standings:
        hand_in = one.graded.hand_in
        first.setdefault(one.student, one)
        if hand_in.platform == platform and hand_in.number:
            numbers[one.student] = hand_in.number
        for part, (earned, possible) in one.parts.items():
            column = Column(one.assignment or "Triton kernels", part)
            columns[column] = max(columns.get(column, 0.0), round(possible, 2))
            points[one.student, column] = _rounded(earned)
    rows = first.items()
    return columns, [
        GradebookLine(one, numbers.get(who, ""), [points.get((who, at)) for at in columns]) for who, one in rows
    ]


def canvas_csv(standings: Sequence[Standing], titles: Titles | None = None) -> str:
    """As Canvas's gradebook imports it: Student, ID, SIS User ID, SIS Login ID, Section, and a column an assignment.

    Bonus labs are a column of their own with no points possible, which is how Canvas takes extra credit.
    """
    (columns, table), titles = _table(standings, "canvas"), titles or Titles()
    most = [0 if column.part == "bonus" else possible for column, possible in columns.items()]
    rows: list[list[object]] = [["    Points Possible", "", "", "", "", *most]]
    for one, number, points in table:
        if person := one.person:
            row = [one.name, person.canvas_id or number, person.sis_id, one.student, person.section]
        else:
            shown = one.student.removesuffix(f"_{number}") if number else one.name
            anonymous = one.graded.hand_in.platform == "canvas"
            row = [shown, number, "", "" if number or anonymous else one.student, ""]
        rows.append([*row, *points])
    return _csv(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *map(titles.of, columns)], rows)


def moodle_csv(standings: Sequence[Standing], titles: Titles | None = None) -> str:
    """As Moodle's gradebook imports it: a column that names the user, and those of each assignment.

    Moodle's own download tells full names and participants' numbers, no user names. Where there is no roster that knows them, the first
    columns are those of its grading worksheet, from which user names or e-mail addresses can be looked up. Beside a roster a student whom
    only the download names has no user name, and no row.
    """
    (columns, table), titles = _table(standings, "moodle"), titles or Titles()
    if any(one.person for one in standings):
        table = [row for row in table if row.one.person or not row.one.graded.hand_in.number]
        names = ["username"]
    else:
        names = ["Identifier", "Full name"] if any(row.number for row in table) else ["username"]
    rows = []
    for one, number, points in table:
        who = [one.student] if len(names) == 1 else [f"Participant {number}" if number else "", one.name]
        rows.append([*who, *("-" if value is None else value for value in points)])
    return _csv([*names, *map(titles.of, columns)], rows)


def grades_jsonl(standings: Sequence[Standing]) -> str:
    """One line a student and assignment; `report` is the document that `grade --json` writes."""
    lines = []
    for one in standings:
        entry = {
            **{column: GRADES[column](one) for column in IN_BOTH},
            "place": one.graded.hand_in.place,
            "counting": {each.hand_in.place: each.begun for each in one.counting if not one.absent},
            "days_late": one.mark.days_late,
            "extension_days": one.mark.extension_days,
            "questions": _questions(one.graded),
            "review": list(one.review),
            "attempts": one.attempts,
            "report": document(one.graded.report),
        }
        lines.append(json_text(entry))
    return "".join(f"{line}\n" for line in lines)


def _questions(graded: Graded) -> dict[str, dict[str, object]]:
    return {lab: {name: asdict(one) for name, one in found.items()} for lab, found in graded.questions.items()}


def _rounded(value: float | None) -> float | None:
    """Points; None, in a table an empty field, which no gradebook takes for 0, where there is no verdict."""
    return None if value is None else round(value, 2)


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[cell(field) for field in row] for row in (header, *rows)])
    return text.getvalue()
