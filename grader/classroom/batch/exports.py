"""The class's grades as files that other programs read: CSV, JSON lines, JUnit XML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args
from xml.etree import ElementTree

from grader.classroom.batch.accounts import Accounted
from grader.classroom.batch.marks import CourseMark
from grader.classroom.batch.platforms import Platform
from grader.classroom.batch.standing import Graded, Standing
from grader.model import LabReport
from grader.reporting.atomic import write_whole
from grader.reporting.document import document
from grader.reporting.junit import junit
from grader.reporting.text import cell, json_text

Part = Literal["kernels", "questions", "bonus"]
PARTS: tuple[Part, ...] = get_args(Part)

HEADER = """student name email section assignment points max_points points_before_lateness days_late extension_days submitted override
reason bonus_points bonus_max_points question_points question_max_points review"""


@dataclass(frozen=True)
class Titles:
    """What the instructor calls the gradebook's columns, by part."""

    given: Mapping[Part, str] = field(default_factory=dict)

    def of(self, column: Column) -> str:
        """A part without a title of its own is named after the title for the kernels, less Canvas's number behind it."""
        base = re.sub(r"\s*\(\d+\)$", "", self.given["kernels"]) if "kernels" in self.given else column.assignment
        plain = base if column.part == "kernels" else f"{base} ({column.part})"
        return self.given.get(column.part, plain)


def write_exports(
    out: Path, standings: Sequence[Standing], titles: Titles | None = None, files: Sequence[Accounted] = ()
) -> None:
    """Writes grades.csv, canvas.csv, moodle.csv, files.csv, grades.jsonl and junit.xml into `out`."""
    titles = titles or Titles()
    write_whole(out / "grades.csv", grades_csv(standings))
    write_whole(out / "canvas.csv", canvas_csv(standings, titles))
    write_whole(out / "moodle.csv", moodle_csv(standings, titles))
    write_whole(
        out / "files.csv", _csv(["file", "fate", "student", "reason"], [[*asdict(one).values()] for one in files])
    )
    write_whole(out / "grades.jsonl", grades_jsonl(standings))
    reports = [
        replace(standing.graded.report, submission=_name(standing)) for standing in standings if not standing.absent
    ]
    write_whole(out / "junit.xml", junit(*reports))


def rehearse(graded: Graded) -> None:
    """Raises whatever writing this report and its marked answers would raise, so that it costs one student and not the class's files."""
    json_text(document(graded.report))
    json_text(_questions(graded))
    ElementTree.fromstring(junit(graded.report))


def grades_csv(standings: Sequence[Standing]) -> str:
    """Everything in one table, a row a student and assignment."""
    labs = _labs(standings)
    header = HEADER.split()
    header += [f"{lab}_{part}" for lab in labs for part in ("correctness", "speed", "status")]
    rows = []
    for one in standings:
        mark, person, hand_in = one.mark, one.person, one.graded.hand_in
        row: list[object] = [
            one.student,
            one.name,
            (person.email if person else "") or hand_in.email,
            person.section if person else "",
            one.assignment,
            _points(mark.points),
            "" if one.absent else _points(mark.possible),
            _points(mark.earned),
            "" if mark.days_late is None or one.absent else mark.days_late,
            mark.extension_days or "",
            mark.handed_in.isoformat() if mark.handed_in else "",
            _points(mark.override),
            mark.reason,
            _points(mark.bonus),
            _points(mark.bonus_possible),
            _points(mark.questions),
            _points(mark.questions_possible or None),
            "nothing was handed in" if one.absent else "; ".join(reason.split("\n")[0] for reason in one.review),
        ]
        for lab in labs:
            report = one.labs.get(lab)
            row += _lab(report) if report else ["", "", ""]
        rows.append(row)
    return _csv(header, rows)


def _lab(report: LabReport) -> list[object]:
    if report.status == "not_graded":
        return ["", "", report.status]
    return [_points(report.correctness_points), _points(report.speed_points), report.status]


@dataclass(frozen=True)
class Column:
    """What a gradebook has a column for: an assignment, its questions, or its bonus labs, which count on top of what is possible."""

    assignment: str
    part: Part

    def points(self, standing: Standing) -> float | None:
        mark = standing.mark
        return {"kernels": mark.points, "questions": mark.questions, "bonus": mark.bonus}[self.part]

    def possible(self, standings: Sequence[Standing]) -> float:
        """The most points that somebody's hand-in could have."""
        return max(round(self._most(one.mark), 2) for one in standings if _assignment(one) == self.assignment)

    def _most(self, mark: CourseMark) -> float:
        if self.part == "kernels":
            return mark.possible
        return mark.questions_possible if self.part == "questions" else 0


def _columns(standing: Standing) -> list[Column]:
    """Where a standing's points go: its assignment's column, those of the questions if it was asked, of bonus labs if one was begun."""
    columns = [] if standing.bonus_only else [Column(_assignment(standing), "kernels")]
    if standing.mark.questions is not None:
        columns.append(Column(_assignment(standing), "questions"))
    if standing.mark.bonus_possible:
        columns.append(Column(_assignment(standing), "bonus"))
    return columns


def _all_columns(standings: Sequence[Standing]) -> list[Column]:
    return list(dict.fromkeys(column for standing in standings for column in _columns(standing)))


def canvas_csv(standings: Sequence[Standing], titles: Titles | None = None) -> str:
    """As Canvas's gradebook imports it: Student, ID, SIS User ID, SIS Login ID, Section, and a column an assignment.

    Bonus labs are a column of their own with no points possible, which is how Canvas takes extra credit.
    """
    columns, titles = _all_columns(standings), titles or Titles()
    rows: list[list[object]] = [["    Points Possible", "", "", "", "", *(one.possible(standings) for one in columns)]]
    points, numbers = _by_student(standings), _numbers(standings, "canvas")
    for student, one in _first_of_each(standings).items():
        person, number = one.person, numbers.get(student, "")
        if person is not None:
            row: list[object] = [one.name, person.canvas_id or number, person.sis_id, student, person.section]
        else:
            shown = student.removesuffix(f"_{number}") if number else one.name
            anonymous = one.graded.hand_in.platform == "canvas"
            row = [shown, number, "", "" if number or anonymous else student, ""]
        rows.append(row + [_points(points.get((student, column))) for column in columns])
    return _csv(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *map(titles.of, columns)], rows)


def moodle_csv(standings: Sequence[Standing], titles: Titles | None = None) -> str:
    """As Moodle's gradebook imports it: a column that names the user, and those of each assignment.

    Moodle's own download tells full names and participants' numbers, no user names. Where there is no roster that knows them, the first
    columns are those of its grading worksheet, from which user names or e-mail addresses can be looked up. Beside a roster a student whom
    only the download names has no user name, and no row.
    """
    columns, titles = _all_columns(standings), titles or Titles()
    points, numbers = _by_student(standings), _numbers(standings, "moodle")
    students = _first_of_each(standings)
    if any(one.person for one in standings):
        students = {student: one for student, one in students.items() if one.person or student not in numbers}
        numbers = {}
    rows: list[list[object]] = []
    for student, one in students.items():
        known = [points.get((student, column)) for column in columns]
        who = [f"Participant {numbers[student]}" if student in numbers else "", one.name] if numbers else [student]
        rows.append([*who, *("-" if value is None else _points(value) for value in known)])
    names = ["Identifier", "Full name"] if numbers else ["username"]
    return _csv([*names, *map(titles.of, columns)], rows)


def _first_of_each(standings: Sequence[Standing]) -> dict[str, Standing]:
    """A standing of each student, in order."""
    found: dict[str, Standing] = {}
    for one in standings:
        found.setdefault(one.student, one)
    return found


def _numbers(standings: Sequence[Standing], platform: Platform) -> dict[str, str]:
    """The numbers that a platform gave to students, where it named what they handed in."""
    hand_ins = [standing.graded.hand_in for standing in standings]
    return {one.student: one.number for one in hand_ins if one.platform == platform and one.number}


def _by_student(standings: Sequence[Standing]) -> dict[tuple[str, Column], float | None]:
    """Points of each student in each column; nothing where the student handed in nothing for it."""
    return {(one.student, column): column.points(one) for one in standings for column in _columns(one)}


def grades_jsonl(standings: Sequence[Standing]) -> str:
    """One line a student and assignment; `report` is the document that `grade --json` writes."""
    lines = []
    for one in standings:
        mark = one.mark
        entry = {
            "student": one.student,
            "name": one.name,
            "assignment": one.assignment,
            "place": one.graded.hand_in.place,
            "submitted": mark.handed_in.isoformat() if mark.handed_in else None,
            "days_late": mark.days_late,
            "extension_days": mark.extension_days,
            "points": _known(mark.points),
            "override": _known(mark.override),
            "reason": mark.reason,
            "bonus_points": _known(mark.bonus),
            "question_points": _known(mark.questions),
            "questions": _questions(one.graded),
            "review": list(one.review),
            "attempts": 0 if one.absent else 1 + len(one.others),
            "report": document(one.graded.report),
        }
        lines.append(json_text(entry))
    return "".join(f"{line}\n" for line in lines)


def _known(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _questions(graded: Graded) -> dict[str, dict[str, object]]:
    return {lab: {name: asdict(one) for name, one in found.items()} for lab, found in graded.questions.items()}


def _name(standing: Standing) -> str:
    return f"{standing.student}/{standing.assignment}" if standing.assignment else standing.student


def _assignment(standing: Standing) -> str:
    return standing.assignment or "Triton kernels"


def _labs(standings: Sequence[Standing]) -> list[str]:
    return list(dict.fromkeys(lab for standing in standings for lab in standing.labs))


def _points(value: float | None) -> float | str:
    """Rounded; an empty field, which no gradebook takes for 0, where there is no verdict."""
    return "" if value is None else round(value, 2)


def _csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[cell(field) for field in row] for row in (header, *rows)])
    return text.getvalue()
