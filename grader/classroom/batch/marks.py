"""What does a student get for an assignment, and how did it come about? One function, whose result every table and every page states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    def after(self, share: float) -> Earned:
        """What lateness leaves of it."""
        points, bonus, questions = (
            None if one is None else share * one for one in (self.points, self.bonus, self.questions)
        )
        return replace(self, points=points, bonus=bonus, questions=questions)


@dataclass(frozen=True)
class CourseMark(Earned):
    """The mark of one student in one assignment. `points` is what counts, out of `possible`; None where nothing is known, never 0.

    earned: before lateness and override. days_late: of the latest hand-in that counts; None where it cannot be known, and then nothing is
    taken off. handed_in: when the last of them came. out_of: as in Rules. late: how each of them was late, in order of the hand-ins: days,
    and percent of its points that are lost. bonus and questions are columns of their own, after lateness; None where no bonus lab was
    graded, and where no question was asked. `override` replaces the points of the course's labs.
    """

    earned: float | None = None
    days_late: int | None = None
    late: tuple[tuple[int | None, float], ...] = ()
    extension_days: float = 0.0
    handed_in: datetime | None = None
    override: float | None = None
    reason: str = ""
    out_of: OutOf = "all"

    @property
    def steps(self) -> tuple[str, ...]:
        """How the points came about, a sentence each; for the page that a student gets."""
        sentences = []
        if self.earned is not None and self.possible:
            sentences.append(f"{number(self.earned)} of {number(self.possible)} points for the kernels.")
        if self.extension_days:
            sentences.append(f"Due {_days(self.extension_days)} later than for the others.")
        if len(self.late) == 1 and self.days_late:
            sentences.append(f"{lateness(*self.late[0])}.")
        if self.override is not None:
            sentences.append(f"Set to {number(self.override)} points by hand: {self.reason}.")
        return tuple(sentences)


def mark(counting: Sequence[tuple[HandIn, Earned]], rules: Rules, person: Person | None = None) -> CourseMark:
    """The mark of what counts for one student: hand-ins, and what was earned by that which counts of each. Each loses its own lateness."""
    days = [rules.days_late(hand_in, person) for hand_in, _ in counting]
    shares = [rules.share(late) for late in days]
    full, override = [1.0] * len(shares), person.override if person else None
    times = [hand_in.submitted for hand_in, _ in counting if hand_in.submitted]

    before, after = (
        _sum([one.after(share) for share, (_, one) in zip(some, counting, strict=True)]) for some in (full, shares)
    )
    return CourseMark(
        points=after.points if override is None else override,
        earned=before.points,
        possible=before.gradable if rules.out_of == "gradable" else before.possible,
        gradable=before.gradable,
        days_late=max((late for late in days if late is not None), default=None),
        late=tuple((late, 100 * (1 - share)) for late, share in zip(days, shares, strict=True)),
        extension_days=person.extension_days if person else 0.0,
        handed_in=(person.handed_in if person else None) or max(times, default=None),
        bonus=after.bonus,
        bonus_possible=before.bonus_possible,
        questions=after.questions,
        questions_possible=before.questions_possible,
        override=override,
        reason=person.reason if person else "",
        out_of=rules.out_of,
    )


def _sum(parts: Sequence[Earned]) -> Earned:
    """All of it: without a verdict where a part has none, and without questions where none has any."""
    points, bonus = [one.points for one in parts], [one.bonus for one in parts]
    questions = [one.questions for one in parts if one.questions is not None]
    return Earned(
        points=None if None in points else sum(one or 0.0 for one in points),
        possible=sum(one.possible for one in parts),
        gradable=sum(one.gradable for one in parts),
        bonus=None if None in bonus else sum(one or 0.0 for one in bonus),
        bonus_possible=sum(one.bonus_possible for one in parts),
        questions=sum(questions) if questions else None,
        questions_possible=sum(one.questions_possible for one in parts),
    )


def lateness(days: int | None, lost_percent: float) -> str:
    """How late a hand-in was, and what that costs: "2 days late: 20 % are taken off"; "" for one in time."""
    if days is None:
        return "how late is not known: nothing is taken off"
    cost = f"{number(lost_percent)} % are taken off" if lost_percent else "nothing is taken off"
    return f"{_days(days)} late: {cost}" if days else ""


def ordered(submitted: datetime | None) -> float:
    """When, for sorting; what has no time comes first."""
    return (submitted or datetime.min.replace(tzinfo=UTC)).timestamp()


def _days(days: float) -> str:
    return f"{days:g} day" if days == 1 else f"{days:g} days"
