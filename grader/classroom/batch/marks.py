"""What does a student get for an assignment, and how did it come about? One function, whose result every table and every page states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from grader.classroom.batch.hand_in import HandIn
from grader.classroom.roster import Person
from grader.reporting.terminal import number

Attempts = Literal["best", "last"]
OutOf = Literal["all", "gradable"]


@dataclass(frozen=True)
class Rules:
    """How hand-ins become a grade. `late_percent`: what a day of lateness, once begun, costs; `free_days` cost nothing.

    out_of: marks are out of all points, or of those that can be earned on the machine that graded.
    """

    attempts: Attempts = "last"
    due: datetime | None = None
    late_percent: float = 0.0
    free_days: int = 0
    out_of: OutOf = "all"

    def days_late(self, hand_in: HandIn, person: Person | None = None) -> int | None:
        """Days begun after the due time and this student's extension; 1 where the platform says late without saying when.

        None where that cannot be known: no time at all, or late without a time and an extension.
        """
        submitted = (person.handed_in if person else None) or hand_in.submitted
        extension = person.extension_days if person else 0.0
        if self.due is None or submitted is None:
            if hand_in.late:
                return None if extension else 1
            return 0 if self.due is None or hand_in.platform == "canvas" else None
        return max(0, math.ceil((submitted - self.due - timedelta(days=extension)).total_seconds() / 86400))

    def share(self, days_late: int | None) -> float:
        """What is left of the points."""
        costly = max(0, (days_late or 0) - self.free_days)
        return max(0.0, 1.0 - costly * self.late_percent / 100)


@dataclass(frozen=True)
class Earned:
    """What the grader says: points of the course's labs, bonus labs and questions, None where there is no verdict or nothing was asked."""

    points: float | None = None
    possible: float = 0.0
    gradable: float = 0.0
    bonus: float | None = None
    bonus_possible: float = 0.0
    questions: float | None = None
    questions_possible: float = 0.0


@dataclass(frozen=True)
class CourseMark(Earned):
    """The mark of one student in one assignment. `points` is what counts, out of `possible`; None where nothing is known, never 0.

    earned: before lateness and override. days_late is None where it cannot be known, and then nothing is taken off. out_of: as in Rules.
    bonus and questions are columns of their own, after lateness; None where no bonus lab was graded, and where no question was asked.
    `override` replaces the points of the course's labs.
    """

    earned: float | None = None
    days_late: int | None = None
    lost_percent: float = 0.0
    extension_days: float = 0.0
    handed_in: datetime | None = None
    override: float | None = None
    reason: str = ""
    out_of: OutOf = "all"

    @property
    def steps(self) -> tuple[str, ...]:
        """How the points came about, a sentence each; for the page that a student gets."""
        sentences = []
        if self.earned is not None:
            sentences.append(f"{number(self.earned)} of {number(self.possible)} points for the kernels.")
        if self.extension_days:
            sentences.append(f"Due {_days(self.extension_days)} later than for the others.")
        if self.days_late:
            cost = f" {number(self.lost_percent)} % are taken off." if self.lost_percent else " Nothing is taken off."
            sentences.append(f"{_days(self.days_late)} late.{cost}")
        if self.override is not None:
            sentences.append(f"Set to {number(self.override)} points by hand: {self.reason}.")
        return tuple(sentences)


def mark(hand_in: HandIn, result: Earned, rules: Rules, person: Person | None = None) -> CourseMark:
    """The mark of what counts for one student."""
    days = rules.days_late(hand_in, person)
    share = rules.share(days)
    override = person.override if person else None

    def after(points: float | None) -> float | None:
        return None if points is None else share * points

    return CourseMark(
        points=after(result.points) if override is None else override,
        earned=result.points,
        possible=result.gradable if rules.out_of == "gradable" else result.possible,
        gradable=result.gradable,
        days_late=days,
        lost_percent=100 * (1 - share),
        extension_days=person.extension_days if person else 0.0,
        handed_in=(person.handed_in if person else None) or hand_in.submitted,
        bonus=after(result.bonus),
        bonus_possible=result.bonus_possible,
        questions=after(result.questions),
        questions_possible=result.questions_possible,
        override=override,
        reason=person.reason if person else "",
        out_of=rules.out_of,
    )


def ordered(submitted: datetime | None) -> float:
    """When, for sorting; what has no time comes first."""
    return (submitted or datetime.min.replace(tzinfo=UTC)).timestamp()


def _days(days: float) -> str:
    return f"{days:g} day" if days == 1 else f"{days:g} days"
