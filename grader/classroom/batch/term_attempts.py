"""The attempts of a term as a class's hand-ins: what `batch --server DB` grades, or finds graded, and makes the gradebook's files from."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from grader.classroom.batch.accounts import everything_below
from grader.classroom.batch.coordinating import points_today
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.intake import Intake
from grader.classroom.batch.journal import Journal
from grader.classroom.batch.marks import Rules
from grader.classroom.roster import Roster
from grader.classroom.server.store import Attempt, Store
from grader.model import Device
from grader.unusable import Unusable


def hand_ins(store: Store, journal: Journal, rules: Rules, roster: Roster, device: Device) -> Callable[[Path], Intake]:
    """What writes, below a folder, each student's attempts that count, a hand-in each: of every lab the last, or the best after lateness.

    Raises Unusable where nothing was submitted.
    """

    def worth(attempt: Attempt) -> tuple[float, float]:
        if rules.attempts == "last":
            return attempt.submitted_at, 0.0
        person = roster.by_login.get(attempt.login)
        share = rules.share(rules.days_late(_hand_in(attempt), person))
        known = journal.get(attempt.key) if attempt.key else None
        points = points_today(known, device).points if known else math.inf
        return share * (0.0 if attempt.state == "done" and not known else points), attempt.submitted_at

    def collected(folder: Path) -> Intake:
        counts: dict[str, dict[str, Attempt]] = {}
        for attempt in store.attempts_until(math.inf):
            labs = counts.setdefault(attempt.login, {})
            labs[attempt.lab] = max(labs.get(attempt.lab, attempt), attempt, key=worth)
        found = []
        for number, (_, labs) in enumerate(sorted(counts.items())):
            for lab, attempt in sorted(labs.items()):
                place = folder / f"{number:04}" / lab  # a login may be no file name
                place.mkdir(parents=True)
                (place / f"{lab}.py").write_text(store.content(attempt.id)[0], encoding="utf-8")
                found.append(_hand_in(attempt, place))
        if not found:
            raise Unusable(f"{store.path} holds no submissions yet")
        return Intake(tuple(found), (), tuple(everything_below(folder)))

    return collected


def _hand_in(attempt: Attempt, place: Path = Path()) -> HandIn:
    login, at = attempt.login, datetime.fromtimestamp(attempt.submitted_at, UTC)
    sources = {file.name: file for file in place.glob("*.py")} if place.name else {}
    return HandIn(login, "", f"{login}/{attempt.lab}", place, at, holds=(place,), sources=sources)
