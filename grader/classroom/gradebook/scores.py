"""How many points does each graded cell get, and how do they come into nbgrader's database?

A lab's graded cells are `<lab>_correctness`, `<lab>_speed` and `<lab>_question_<name>`. A question of `questions.py` is
marked from the submitted file (grader.classroom.marked_answers); every other one is graded by a human. nbgrader is needed to write
scores, not to import this module.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from grader.classroom.gradebook import BONUS
from grader.classroom.marked_answers import DECIMALS, answer_score, asked
from grader.labs import all_labs
from grader.model import LabReport, Report
from grader.reading.answers import Answers
from grader.reporting.text import name
from grader.unusable import Unusable

PARTS = ("correctness", "speed")


def graded_part(grade_id: str) -> tuple[str, str] | None:
    """The lab and the part of it that a cell is worth points for; None for a cell that is not ours to grade."""
    lab_id, _, part = grade_id.rpartition("_")
    return (lab_id, part) if part in PARTS and lab_id in all_labs() else None


def cell_score(lab: LabReport, part: str, max_score: float) -> float:
    """Points of one cell, from 0 to max_score, to six decimals.

    They are the rubric's points, in proportion where the cell is worth something else than the rubric says. Raises
    ValueError for points that are no number.
    """
    points, most = (round(float(getattr(lab, f"{part}_{what}")), DECIMALS) for what in ("points", "max"))
    if not math.isfinite(points) or not math.isfinite(most):
        raise ValueError(f"{part} has {points} of {most} points; expected finite numbers")
    if most != max_score:
        points = min(max(points / most, 0.0), 1.0) * max_score if most > 0 else 0.0
    return round(min(max(points, 0.0), max_score), DECIMALS)


def write_scores(
    gradebook: str | Path,
    assignment: str,
    student: str,
    report: Report,
    *,
    answers: Mapping[str, Answers] = MappingProxyType({}),
    submitted: datetime | str | None = None,
) -> dict[str, float]:
    """Writes a report's points into the graded cells of its labs and returns them by grade_id.

    gradebook: the file or the database address. answers: those to the questions of each lab. The student and their
    submission are created when missing; bonus labs go into the assignment whose name ends in BONUS, where the course has
    one; cells of labs that the report does not have or that were not graded, questions without answers here and whatever a
    human gave stay as they are. Raises Unusable for a database without the assignment or its graded cells.
    """
    student, labs = name(student), report.labs
    try:
        from nbgrader import api
    except ImportError:
        raise Unusable("nbgrader is not installed; run `pip install -e .[course]`") from None
    written: dict[str, float] = {}
    times = {} if submitted is None else {"timestamp": str(submitted)}
    with warnings.catch_warnings(action="ignore"), api.Gradebook(_address(gradebook)) as book:
        known = [found.name for found in book.assignments]
        if assignment not in known:
            raise Unusable(f"{gradebook} has no assignment {assignment!r}; it has {', '.join(known) or 'none'}")
        book.update_or_create_student(student)
        bonus = assignment + BONUS
        begun = bonus in known and any(all_labs()[lab_id].bonus for lab_id in (*labs, *answers))
        for part in (assignment, bonus) if begun else (assignment,):
            book.update_or_create_submission(part, student, **times)
            written |= _write_cells(book, part, student, labs, answers)
        book.db.commit()
    if not written and any(lab.status != "not_graded" for lab in labs.values()):
        raise Unusable(
            f"assignment {assignment!r} of {gradebook} has no graded cell such as {next(iter(labs))}_correctness; make the "
            "course with `make course`"
        )
    return written


def _write_cells(
    book: Any, assignment: str, student: str, labs: Mapping[str, LabReport], answers: Mapping[str, Answers]
) -> dict[str, float]:
    """Writes the points of one assignment's graded cells, and returns them by grade_id."""
    written: dict[str, float] = {}
    for notebook in book.find_assignment(assignment).notebooks:
        for cell in notebook.grade_cells:
            score = _score(cell.name, float(cell.max_score), labs, answers)
            if score is None:
                continue
            grade = book.find_grade(cell.name, notebook.name, assignment, student)
            grade.auto_score = written[cell.name] = score
            grade.needs_manual_grade = grade.manual_score is not None
    return written


def _score(
    grade_id: str, max_score: float, labs: Mapping[str, LabReport], answers: Mapping[str, Answers]
) -> float | None:
    """A cell's points; None for one that is not known here, or not ours to grade."""
    if part := graded_part(grade_id):
        lab = labs.get(part[0])
        return None if lab is None or lab.status == "not_graded" else cell_score(lab, part[1], max_score)
    question = asked(grade_id)
    if question is None or question[0] not in answers:
        return None
    return answer_score(*question, answers[question[0]], max_score)[0]


def _address(gradebook: str | Path) -> str:
    text = str(gradebook)
    if "://" in text and not text.startswith("sqlite:///"):
        return text
    path = Path(text.removeprefix("sqlite:///")).resolve()
    if not path.is_file():
        raise Unusable(f"{path} does not exist; make the course with `make course`, or give its gradebook.db")
    return f"sqlite:///{path}"
