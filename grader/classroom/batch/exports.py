"""The class's grades as files that other programs read: CSV, JSON lines, JUnit XML."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from grader.classroom.batch.platforms import Platform
from grader.classroom.batch.standing import Graded, Standing
from grader.model import LabReport
from grader.reporting.atomic import write_whole
from grader.reporting.document import document
from grader.reporting.junit import junit
from grader.reporting.text import cell, json_text


def write_exports(out: Path, standings: Sequence[Standing]) -> None:
    """Writes grades.csv, canvas.csv, moodle.csv, grades.jsonl and junit.xml into `out`."""
    write_whole(out / "grades.csv", grades_csv(standings))
    write_whole(out / "canvas.csv", canvas_csv(standings))
    write_whole(out / "moodle.csv", moodle_csv(standings))
    write_whole(out / "grades.jsonl", grades_jsonl(standings))
    reports = [replace(standing.graded.report, submission=_name(standing)) for standing in standings]
    write_whole(out / "junit.xml", junit(*reports))


def rehearse(graded: Graded) -> None:
    """Raises whatever writing this report and its marked answers would raise, so that it costs one student and not the class's files."""
    json_text(document(graded.report))
    json_text(_questions(graded))
    ElementTree.fromstring(junit(graded.report))


def grades_csv(standings: Sequence[Standing]) -> str:
    """Everything in one table, a row a student and assignment."""
    labs = _labs(standings)
    header = ["student", "assignment", "points", "max_points", "points_before_lateness", "days_late", "submitted"]
    header += ["bonus_points", "bonus_max_points", "question_points", "question_max_points"]
    header += [f"{lab}_{part}" for lab in labs for part in ("correctness", "speed", "status")]
    rows = []
    for standing in standings:
        report, submitted = standing.graded.report, standing.graded.hand_in.submitted
        row: list[object] = [
            standing.student,
            standing.assignment,
            _points(standing.points),
            _points(report.max_points),
        ]
        row += [
            _points(None if standing.points is None else report.points),
            standing.days_late,
            submitted.isoformat() if submitted else "",
            _points(standing.bonus),
            _points(report.bonus_max),
            _points(standing.questions),
            _points(_asked(standing) or None),
        ]
        for lab in labs:
            one = standing.labs.get(lab)
            row += _lab(one) if one else ["", "", ""]
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
    part: Literal["kernels", "questions", "bonus"]

    @property
    def title(self) -> str:
        return self.assignment if self.part == "kernels" else f"{self.assignment} ({self.part})"

    def points(self, standing: Standing) -> float | None:
        return {"kernels": standing.points, "questions": standing.questions, "bonus": standing.bonus}[self.part]

    def possible(self, standings: Sequence[Standing]) -> float:
        """The most points that somebody's hand-in could have."""
        return max(round(self._most(one), 2) for one in standings if _assignment(one) == self.assignment)

    def _most(self, standing: Standing) -> float:
        if self.part == "kernels":
            return standing.graded.report.max_points
        return _asked(standing) if self.part == "questions" else 0


def _columns(standing: Standing) -> list[Column]:
    """Where a standing's points go: its assignment's column, those of the questions if it was asked, of bonus labs if one was begun."""
    columns = [Column(_assignment(standing), "kernels")]
    if standing.questions is not None:
        columns.append(Column(_assignment(standing), "questions"))
    if standing.graded.report.bonus_max:
        columns.append(Column(_assignment(standing), "bonus"))
    return columns


def _asked(standing: Standing) -> float:
    """The points of all questions with numbers that a standing's hand-in was asked."""
    return sum(answer.max_points for answer in standing.graded.answered)


def _all_columns(standings: Sequence[Standing]) -> list[Column]:
    return list(dict.fromkeys(column for standing in standings for column in _columns(standing)))


def canvas_csv(standings: Sequence[Standing]) -> str:
    """As Canvas's gradebook imports it: Student, ID, SIS User ID, SIS Login ID, Section, and a column an assignment.

    Bonus labs are a column of their own with no points possible, which is how Canvas takes extra credit.
    """
    columns = _all_columns(standings)
    rows: list[list[object]] = [
        ["    Points Possible", "", "", "", "", *(one.possible(standings) for one in columns)]
    ]
    points, numbers = _by_student(standings), _numbers(standings, "canvas")
    for student in dict.fromkeys(standing.student for standing in standings):
        canvas_id = numbers.get(student, "")
        login = "" if canvas_id else student
        row: list[object] = [student.removesuffix(f"_{canvas_id}") if canvas_id else student, canvas_id, "", login, ""]
        rows.append(row + [_points(points.get((student, column))) for column in columns])
    return _csv(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(one.title for one in columns)], rows)


def moodle_csv(standings: Sequence[Standing]) -> str:
    """As Moodle's gradebook imports it: a column that names the user, and those of each assignment.

    Moodle's own download tells full names and participants' numbers, no user names: then the first columns are those of its grading
    worksheet, from which user names or e-mail addresses can be looked up.
    """
    columns = _all_columns(standings)
    points, numbers = _by_student(standings), _numbers(standings, "moodle")
    rows: list[list[object]] = []
    for student in dict.fromkeys(standing.student for standing in standings):
        known = [points.get((student, column)) for column in columns]
        who = [f"Participant {numbers[student]}" if student in numbers else "", student] if numbers else [student]
        rows.append([*who, *("-" if value is None else _points(value) for value in known)])
    names = ["Identifier", "Full name"] if numbers else ["username"]
    return _csv([*names, *(one.title for one in columns)], rows)


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
    for standing in standings:
        submitted = standing.graded.hand_in.submitted
        entry = {
            "student": standing.student,
            "assignment": standing.assignment,
            "place": standing.graded.hand_in.place,
            "submitted": submitted.isoformat() if submitted else None,
            "days_late": standing.days_late,
            "points": None if standing.points is None else _points(standing.points),
            "bonus_points": None if standing.bonus is None else _points(standing.bonus),
            "question_points": None if standing.questions is None else _points(standing.questions),
            "questions": _questions(standing.graded),
            "look": list(standing.graded.look),
            "attempts": 1 + len(standing.others),
            "report": document(standing.graded.report),
        }
        lines.append(json_text(entry))
    return "".join(f"{line}\n" for line in lines)


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
