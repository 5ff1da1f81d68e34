"""Which of a student's hand-ins counts, how late it was, and what is left of its points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

from grader.classroom.batch.hand_in import HandIn
from grader.classroom.questions import MarkedAnswer, marked
from grader.model import LabReport, Report
from grader.reading.answers import Answers

Attempts = Literal["best", "last"]


@dataclass(frozen=True)
class Rules:
    """How hand-ins become a grade. `late_percent`: what a day of lateness, once begun, costs; `free_days` cost nothing."""

    attempts: Attempts = "last"
    due: datetime | None = None
    late_percent: float = 0.0
    free_days: int = 0

    def days_late(self, hand_in: HandIn) -> int:
        """Days begun after the due time; 1 where the platform says late without saying when."""
        if self.due is None or hand_in.submitted is None:
            return 1 if hand_in.late else 0
        return max(0, math.ceil((hand_in.submitted - self.due).total_seconds() / 86400))

    def share(self, hand_in: HandIn) -> float:
        """What is left of the points."""
        costly = max(0, self.days_late(hand_in) - self.free_days)
        return max(0.0, 1.0 - costly * self.late_percent / 100)


@dataclass(frozen=True)
class Graded:
    """One hand-in with its report; `look` says why a human should look at it, if so. answers: those to each lab's questions."""

    hand_in: HandIn
    report: Report
    look: tuple[str, ...] = ()
    answers: Mapping[str, Answers] = field(default_factory=dict)

    @property
    def ungraded(self) -> tuple[str, ...]:
        """The labs that the grader came to no verdict on."""
        return tuple(lab_id for lab_id, lab in self.report.labs.items() if lab.status == "not_graded")

    @cached_property
    def questions(self) -> dict[str, dict[str, MarkedAnswer]]:
        """The questions with numbers of the labs whose answers were handed in, by lab and name."""
        return marked(self.answers)

    @property
    def answered(self) -> list[MarkedAnswer]:
        """Those of the course's labs: what bonus labs ask is told, and counts in nobody's sum."""
        bonus = {lab_id for lab_id, lab in self.report.labs.items() if lab.bonus}
        return [answer for lab_id, lab in self.questions.items() if lab_id not in bonus for answer in lab.values()]


@dataclass(frozen=True)
class Standing:
    """What counts for one student in one assignment: the chosen hand-in, its lateness, and the others.

    `points` is None where a lab was not graded: a sum without it would be less than what was earned. So is `bonus`, the points
    of bonus labs. `questions`: points of the questions with numbers; None where none were handed in.
    """

    student: str
    assignment: str
    graded: Graded
    others: tuple[Graded, ...]
    days_late: int
    points: float | None
    bonus: float | None
    questions: float | None = None

    @property
    def labs(self) -> Mapping[str, LabReport]:
        return self.graded.report.labs


def standings(graded: Iterable[Graded], rules: Rules) -> list[Standing]:
    """One for each student and assignment, in order of their names."""
    groups: dict[tuple[str, str], list[Graded]] = {}
    for one in graded:
        groups.setdefault((one.hand_in.student, one.hand_in.assignment), []).append(one)
    found = []
    for (student, assignment), attempts in sorted(groups.items()):
        chosen = max(attempts, key=lambda one: _rank(one, rules))
        others = tuple(one for one in attempts if one is not chosen)
        share = rules.share(chosen.hand_in)
        unknown = {chosen.report.labs[lab_id].bonus for lab_id in chosen.ungraded}
        points = None if False in unknown else chosen.report.points * share
        bonus = None if True in unknown else chosen.report.bonus_points * share
        questions = share * sum(answer.points for answer in chosen.answered) if chosen.answered else None
        found.append(Standing(student, assignment, chosen, others, rules.days_late(chosen.hand_in), points, bonus, questions))
    return found


def _rank(one: Graded, rules: Rules) -> tuple[bool, float, float, float]:
    """The larger counts; bonus points where the others are equal.

    A hand-in that cannot be read never replaces one that can; one without a verdict may be the best.
    """
    submitted = (one.hand_in.submitted or datetime.min.replace(tzinfo=UTC)).timestamp()
    unknown = any(not one.report.labs[lab_id].bonus for lab_id in one.ungraded)
    points = math.inf if unknown else one.report.points * rules.share(one.hand_in)
    readable = not one.hand_in.refused
    bonus = one.report.bonus_points * rules.share(one.hand_in)
    return (readable, points, bonus, submitted) if rules.attempts == "best" else (readable, submitted, points, bonus)
