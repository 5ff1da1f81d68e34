"""What does a student get for an assignment, and how did it come about? One function, whose result every table and every page states."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

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


class Points(NamedTuple):
    """What somebody has of something: None where there is no verdict, never 0. possible: the most that there is."""

    points: float | None
    possible: float


NOTHING = Points(None, 0.0)
Part = Literal["kernels", "questions", "bonus"]
Parts = Mapping[Part, Points]
"""What has a column of its own in a gradebook: the kernels if any of the course's labs was asked for, the questions if any was asked, and
bonus labs if one was begun."""


@dataclass(frozen=True)
class CourseMark:
    """The mark of one student in one assignment: what counts of each part, after lateness and override.

    earned: for the kernels before lateness and override. days_late: of the latest hand-in that counts; None where it cannot be known, and
    then nothing is taken off. handed_in: when the last of them came. out_of: as in Rules. late: how each of them was late, in order of the
    hand-ins: days, and percent of its points that are lost. `override` replaces the points of the kernels.
    """

    parts: Parts
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
        if self.earned is not None and (possible := self.parts["kernels"].possible):
            sentences.append(f"{number(self.earned)} of {number(possible)} points for the kernels.")
        if self.extension_days:
            sentences.append(f"Due {_days(self.extension_days)} later than for the others.")
        if len(self.late) == 1 and self.days_late:
            sentences.append(f"{lateness(*self.late[0])}.")
        if self.override is not None:
            sentences.append(f"Set to {number(self.override)} points by hand: {self.reason}.")
        return tuple(sentences)


def mark(counting: Sequence[tuple[HandIn, Parts]], rules: Rules, person: Person | None = None) -> CourseMark:
    """The mark of what counts for one student: hand-ins, and what was earned by that which counts of each. Each loses its own lateness."""
    days = [rules.days_late(hand_in, person) for hand_in, _ in counting]
    shares = [rules.share(late) for late in days]
    override = person.override if person else None
    times = [hand_in.submitted for hand_in, _ in counting if hand_in.submitted]
    before, after = (
        _sum((share, parts) for share, (_, parts) in zip(some, counting, strict=True))
        for some in ([1.0] * len(shares), shares)
    )
    if override is not None:
        after["kernels"] = Points(override, after.get("kernels", NOTHING).possible)
    return CourseMark(
        after,
        earned=before.get("kernels", NOTHING).points,
        days_late=max((late for late in days if late is not None), default=None),
        late=tuple((late, 100 * (1 - share)) for late, share in zip(days, shares, strict=True)),
        extension_days=person.extension_days if person else 0.0,
        handed_in=(person.handed_in if person else None) or max(times, default=None),
        override=override,
        reason=person.reason if person else "",
        out_of=rules.out_of,
    )


def _sum(some: Iterable[tuple[float, Parts]]) -> dict[Part, Points]:
    """All parts of some hand-ins, with the share of each that lateness leaves: without a verdict where one has none."""
    found: dict[Part, Points] = {}
    for share, parts in some:
        for part, (points, possible) in parts.items():
            before, most = found.get(part, Points(0.0, 0.0))
            known = None if points is None or before is None else before + share * points
            found[part] = Points(known, most + possible)
    return found


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
