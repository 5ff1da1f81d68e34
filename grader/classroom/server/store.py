"""Who may submit, and what was submitted? Tables of their own in the file of the journal, so that one file is the whole course."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from grader.classroom.batch import journal
from grader.classroom.roster import Person
from grader.unusable import Unusable

State = Literal["queued", "running", "done", "failed", "cancelled"]
Role = Literal["student", "instructor"]
SCHEMA = """
CREATE TABLE IF NOT EXISTS member (
    login TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, token TEXT UNIQUE, expires_at REAL NOT NULL,
    started_at REAL NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS attempt (
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL, lab TEXT NOT NULL, request TEXT NOT NULL,
    submitted_at REAL NOT NULL, state TEXT NOT NULL DEFAULT 'queued', priority INTEGER NOT NULL DEFAULT 0,
    started_at REAL, finished_at REAL, text TEXT NOT NULL, lines TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT 'null', profile INTEGER NOT NULL DEFAULT 0, UNIQUE (login, request)
);
CREATE INDEX IF NOT EXISTS attempt_state ON attempt (state);
CREATE INDEX IF NOT EXISTS attempt_login ON attempt (login, submitted_at);
"""
"""member.token: the digest of a token, NULL when it was revoked; started_at: when an attempt of this one was last begun."""

ADMIT = """
INSERT INTO member (login, name, role, token, expires_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (login) DO UPDATE
SET name = excluded.name, role = excluded.role, token = excluded.token, expires_at = excluded.expires_at WHERE member.token IS NULL OR ?
"""
QUEUE = """
SELECT id, login FROM attempt JOIN member USING (login) WHERE state = 'queued' ORDER BY priority DESC,
ROW_NUMBER() OVER (PARTITION BY login ORDER BY id) + login IN (SELECT login FROM attempt WHERE state = 'running'),
member.started_at, id
"""
"""Everybody's next before anybody's second, and whoever was served longest ago before the others."""

MAX_WAITING = 5
"""Attempts of one student that wait at the same time."""
HOUR = 3600.0
DUE = "server_due"
"""The setting that holds the deadline, in ISO 8601."""


class NotAccepted(ValueError):
    """A submission that is not queued; the message says why and when to try again."""


@dataclass(frozen=True)
class Member:
    """Somebody with a token."""

    login: str
    name: str
    role: Role
    expires_at: float

    @property
    def instructs(self) -> bool:
        return self.role == "instructor"


@dataclass(frozen=True)
class AttemptAnswer:
    """What the author of an attempt is told. gradable: the points that could be earned on this machine; ratio: geometric mean of `cases`,
    time of cuBLAS / time of the kernel by speed case, None where none counts; trouble: what is wrong first; remarks: text and style."""

    status: str
    points: float
    max_points: float
    gradable: float
    ratio: float | None
    cases: Mapping[str, float]
    trouble: str
    remarks: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Attempt:
    """One submission of one lab. Times are seconds since 1970. `profile`: whether its author asks where the time goes. `answer`: None
    until it has ended, and of one that was cancelled."""

    id: int
    login: str
    lab: str
    submitted_at: float
    state: State
    started_at: float | None
    finished_at: float | None
    key: str
    profile: bool
    answer: AttemptAnswer | None

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")


COLUMNS = "id, login, lab, submitted_at, state, started_at, finished_at, key, profile, answer"


def digest(token: str) -> str:
    """What is kept of a token: it has 256 random bits, so nobody finds it from its digest."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Store:
    """The open file. Every method is a transaction of its own, and may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises Unusable for a file that cannot be opened or is damaged."""
        self.path = path
        try:
            self._database = journal.opened(path, journal.SCHEMA + SCHEMA)
            if self._database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("it is damaged")
        except sqlite3.Error as error:
            raise Unusable(
                f"{path} is not a course's database ({error}); restore its backup, or name a file that does not exist yet"
            ) from None
        self._lock = threading.RLock()

    def close(self) -> None:
        self._database.close()

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _change(self, statement: str, *values: object) -> int:
        """Runs one statement as a transaction; says how many rows it changed."""
        with self._lock, self._database:
            return self._database.execute(statement, values).rowcount

    def setting(self, name: str) -> str:
        """A setting, shared with the journal; "" where it is not set."""
        rows = self._rows("SELECT value FROM setting WHERE name = ?", name)
        return str(rows[0][0]) if rows else ""

    def set(self, name: str, value: str) -> None:
        self._change("INSERT OR REPLACE INTO setting VALUES (?, ?)", name, value)

    @property
    def due(self) -> datetime | None:
        """The deadline; the board shows what was submitted until then."""
        text = self.setting(DUE)
        return datetime.fromisoformat(text) if text else None

    def admit(self, people: Iterable[Person], role: Role, days: float, *, renew: bool = False) -> dict[str, str]:
        """Gives a token to everybody who has none, with `renew` to all of these; returns the new ones by login, which are kept nowhere."""
        made, expires_at = {}, time.time() + days * 86400
        with self._lock, self._database:
            for person in people:
                token = f"lab_{secrets.token_hex(32)}"
                values = (person.login, person.name or person.login, role, digest(token), expires_at, renew)
                if self._database.execute(ADMIT, values).rowcount:
                    made[person.login] = token
        return made

    def revoke(self, login: str) -> bool:
        """Ends a member's token; says whether there is such a member."""
        return self._change("UPDATE member SET token = NULL WHERE login = ?", login) > 0

    def member(self, token_digest: str) -> Member | None:
        """Whose token has this digest; None where it is unknown, expired or revoked."""
        rows = self._rows("SELECT login, name, role, expires_at FROM member WHERE token = ?", token_digest)
        found = Member(*rows[0]) if rows else None
        return found if found and found.expires_at > time.time() else None

    def members(self) -> list[tuple[Member, bool]]:
        """Everybody, and whether the token is in force."""
        rows = self._rows("SELECT login, name, role, expires_at, token FROM member ORDER BY login")
        return [(Member(*row[:4]), row[4] is not None and row[3] > time.time()) for row in rows]

    def submit(
        self, login: str, *, lab: str, text: str, lines: list[Any], request: str, per_hour: int, profile: bool = False
    ) -> Attempt:
        """Queues a submission. The same request again gives the same attempt and queues nothing. Raises NotAccepted."""
        now = time.time()
        with self._lock, self._database as database:
            database.execute("BEGIN IMMEDIATE")
            asked = "SELECT id FROM attempt WHERE login = ? AND request = ?"
            known = database.execute(asked, (login, request)).fetchone()
            if known is None:
                self._admissible(login, now, per_hour)
                insert = "INSERT INTO attempt (login, lab, request, submitted_at, text, lines, profile) VALUES (?, ?, ?, ?, ?, ?, ?)"
                values = (login, lab, request, now, text, json.dumps(lines), profile)
                known = (database.execute(insert, values).lastrowid,)
        return cast(Attempt, self.attempt(known[0]))

    def _admissible(self, login: str, now: float, per_hour: int) -> None:
        """Raises NotAccepted. What was cancelled before it began does not count."""
        asked = "SELECT submitted_at, state FROM attempt WHERE login = ? AND (state != 'cancelled' OR started_at IS NOT NULL) ORDER BY 1"
        submitted = self._rows(asked, login)
        if (waiting := sum(state == "queued" for _, state in submitted)) >= MAX_WAITING:
            raise NotAccepted(f"{waiting} of your submissions are waiting already; cancel one, or wait for one")
        recent = [moment for moment, _ in submitted if moment > now - HOUR]
        if len(recent) >= per_hour:
            minutes = max(1, round((recent[-per_hour] + HOUR - now) / 60))
            raise NotAccepted(f"you submitted {len(recent)} times within an hour; try again in {minutes} min")

    def attempt(self, number: int) -> Attempt | None:
        return next(iter(self._attempts("id = ?", number)), None)

    def attempts_of(self, login: str, most: int = 200) -> list[Attempt]:
        """A member's attempts, the newest first."""
        return self._attempts("login = ? ORDER BY id DESC LIMIT ?", login, most)

    def in_state(self, *states: State) -> list[Attempt]:
        return self._attempts(f"state IN ({', '.join('?' * len(states))}) ORDER BY id", *states)

    def attempts_until(self, moment: float) -> list[Attempt]:
        """What was submitted by then and not cancelled, in order."""
        return self._attempts("submitted_at <= ? AND state != 'cancelled' ORDER BY id", moment)

    def _attempts(self, condition: str, *values: object) -> list[Attempt]:
        found = []
        for *row, profile, text in self._rows(f"SELECT {COLUMNS} FROM attempt WHERE {condition}", *values):
            answer = json.loads(text)
            row += [bool(profile), AttemptAnswer(**answer) if answer else None]
            found.append(Attempt(*row))
        return found

    def content(self, number: int) -> tuple[str, list[list[Any]]]:
        """The text of a submission, and the SourceLine's fields of each line."""
        text, lines = self._rows("SELECT text, lines FROM attempt WHERE id = ?", number)[0]
        return str(text), json.loads(lines)

    def waiting(self) -> list[tuple[int, str]]:
        """Ids and logins of what is queued, in the order in which it will start."""
        return [(number, login) for number, login in self._rows(QUEUE)]

    def begin_next(self, busy: Set[str] = frozenset()) -> Attempt | None:
        """Takes the next attempt whose author has none running and is not among `busy`; None when there is none."""
        with self._lock, self._database as database:
            taken = busy | {one.login for one in self.in_state("running")}
            number, login = next((one for one in self.waiting() if one[1] not in taken), (None, ""))
            if number is None:
                return None
            now = time.time()
            database.execute("UPDATE attempt SET state = 'running', started_at = ? WHERE id = ?", (now, number))
            database.execute("UPDATE member SET started_at = ? WHERE login = ?", (now, login))
        return self.attempt(number)

    def finish(self, number: int, state: State, answer: AttemptAnswer, key: str = "") -> None:
        """Ends a running attempt; one that ended before stays as it is."""
        statement = (
            "UPDATE attempt SET state = ?, finished_at = ?, answer = ?, key = ? WHERE id = ? AND state = 'running'"
        )
        self._change(statement, state, time.time(), json.dumps(asdict(answer)), key, number)

    def cancel(self, number: int) -> bool:
        """Takes an attempt out of the queue, or off its way; says whether it had not ended yet."""
        statement = "UPDATE attempt SET state = 'cancelled', finished_at = ? WHERE id = ? AND finished_at IS NULL"
        return self._change(statement, time.time(), number) > 0

    def move_to_front(self, number: int) -> None:
        """Puts an attempt before all others."""
        best = "(SELECT MAX(priority) + 1 FROM attempt WHERE state = 'queued')"
        self._change(f"UPDATE attempt SET priority = {best} WHERE id = ? AND state = 'queued'", number)

    def requeue(self) -> int:
        """Puts back into the queue what an ended server left running; says how many."""
        return self._change("UPDATE attempt SET state = 'queued' WHERE state = 'running'")
