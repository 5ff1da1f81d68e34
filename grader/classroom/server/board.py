"""What is to be seen of many attempts: the board under pseudonyms, one student's curve, and who is stuck on what."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from grader.classroom.batch.overview import pseudonym_of
from grader.classroom.server.store import Attempt, AttemptAnswer
from grader.judging.rubric import SOLUTION, load_tiers
from grader.labs import get_lab
from grader.model import Device
from grader.reporting.curves import curve

STUCK = 3
"""Attempts in a row with the same trouble."""
CUBLAS, REFERENCE = "cuBLAS fp16", "reference solution"


@dataclass(frozen=True)
class BoardRow:
    """A line of a lab's board. ratio: geometric mean of the cases' times of cuBLAS / time of the kernel; None without a timed case."""

    who: str
    points: float | None
    ratio: float | None
    cases: Mapping[str, float] = field(default_factory=dict)
    student: bool = True


@dataclass(frozen=True)
class Board:
    """A lab's speed cases, none without a GPU, and its rows, the fastest first."""

    cases: tuple[str, ...]
    rows: tuple[BoardRow, ...]


def boards(attempts: Iterable[Attempt], labs: Sequence[str], device: Device, secret: str) -> dict[str, Board]:
    """Each lab's board; a student's best attempt counts."""
    best: dict[str, dict[str, AttemptAnswer]] = {lab: {} for lab in labs}
    for attempt, answer in _done(attempts):
        if answer.points > 0 and attempt.lab in best:
            known = best[attempt.lab].get(attempt.login, answer)
            best[attempt.lab][attempt.login] = max(known, answer, key=lambda one: (one.ratio or 0.0, one.points))
    found = {}
    for lab, students in best.items():
        rows = [
            BoardRow(pseudonym_of(login, secret), one.points, one.ratio, one.cases) for login, one in students.items()
        ]
        cases = tuple(case.name for case in get_lab(lab).speed_cases) if device.kind == "cuda" else ()
        rows += _references(lab, cases, device)
        rows.sort(key=lambda row: (-(row.ratio or 0.0), -(row.points or 0.0), row.who))
        found[lab] = Board(cases, tuple(rows))
    return found


def _done(attempts: Iterable[Attempt]) -> Iterator[tuple[Attempt, AttemptAnswer]]:
    """The attempts that have a verdict, and what it comes to."""
    return ((one, one.answer) for one in attempts if one.state == "done" and one.answer)


def _references(lab: str, cases: Sequence[str], device: Device) -> list[BoardRow]:
    """The lines of cuBLAS, and of the solution where it was measured on this GPU."""
    if not cases:
        return []
    rows = [BoardRow(CUBLAS, None, 1.0, dict.fromkeys(cases, 1.0), student=False)]
    known = load_tiers(device.name, device.capability).rungs(lab).get(SOLUTION, {})
    ratios = {case: round(known[case], 2) for case in cases if case in known}
    if len(ratios) == len(cases):
        rows.append(BoardRow(REFERENCE, None, statistics.geometric_mean(ratios.values()), ratios, student=False))
    return rows


def stuck(attempts: Iterable[Attempt]) -> list[tuple[str, str, str, int]]:
    """Who has the same trouble in a lab for STUCK attempts or more: login, lab, trouble, attempts; the longest first."""
    runs: dict[tuple[str, str], tuple[str, int]] = {}
    for attempt, answer in _done(attempts):
        place = attempt.login, attempt.lab
        before, count = runs.get(place, ("", 0))
        runs[place] = answer.trouble, count + 1 if answer.trouble == before else 1
    found = [(*place, trouble, count) for place, (trouble, count) in runs.items() if trouble and count >= STUCK]
    return sorted(found, key=lambda one: (-one[3], one))


def curve_of(attempts: Iterable[Attempt]) -> Markup:
    """One lab's attempts over time as a picture: ratios where something was timed, else points."""
    done = list(_done(sorted(attempts, key=lambda one: one.id)))
    moments = [one.submitted_at for one, _ in done]
    if any(answer.ratio for _, answer in done):
        return curve(moments, [answer.ratio or 0.0 for _, answer in done], 1.0, "1 = cuBLAS")
    most = max((answer.max_points for _, answer in done), default=0.0)
    return curve(moments, [answer.points for _, answer in done], most, f"{most:g} points")
