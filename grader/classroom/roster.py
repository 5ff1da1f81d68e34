"""Who is in the class, and what was decided by hand for one of them? Reads a roster: a CSV file with a row a student."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.times import moment
from grader.unusable import Unusable

MAX_BYTES = 16 << 20
ALIASES = {"student": "name", "id": "canvas_id", "sis_login_id": "login", "sis_user_id": "sis_id"}
ALIASES |= {"username": "login", "email_address": "email"}
"""What the exports of Canvas's gradebook and of Moodle's participants call the columns."""

MAX_REPORTED = 20
"""Bad rows that are told at once."""

IDS = ("canvas_id", "moodle_id", "gradescope_id", "github", "email", "sis_id")
OF_PLATFORM = {"canvas": "canvas_id", "moodle": "moodle_id", "gradescope": "gradescope_id"}


@dataclass(frozen=True)
class Person:
    """One row. extension_days: later due, for this one; handed_in: when, where the files do not say or say it wrong.

    override: the points that count whatever the grader says, with the reason for it.
    """

    login: str
    name: str = ""
    email: str = ""
    canvas_id: str = ""
    sis_id: str = ""
    moodle_id: str = ""
    gradescope_id: str = ""
    github: str = ""
    section: str = ""
    extension_days: float = 0.0
    handed_in: datetime | None = None
    override: float | None = None
    reason: str = ""

    @property
    def corrected(self) -> bool:
        """Whether something was decided by hand, which belongs to one assignment."""
        return bool(self.extension_days or self.handed_in or self.override is not None)


COLUMNS = tuple(column.name for column in fields(Person))


@dataclass(frozen=True)
class Roster:
    """The class. `name` is the file's, for sentences; a roster without people is that of a class without one."""

    people: tuple[Person, ...] = ()
    name: str = ""

    def __bool__(self) -> bool:
        return bool(self.people)

    @cached_property
    def by_login(self) -> Mapping[str, Person]:
        return {person.login: person for person in self.people}

    def owner(self, hand_in: HandIn) -> Person | None:
        """The row of whoever handed something in: by the platform's number, else by login or id, else by a name that only one has."""
        column = OF_PLATFORM.get(hand_in.platform, "")
        if hand_in.number and (known := self._by_id.get((column, _folded(hand_in.number)))):
            return known
        found = hand_in.student.removesuffix(f"_{hand_in.number}")
        labels = [*filter(None, map(_folded, (hand_in.student, found, hand_in.email)))]
        known_by = (self._by_id.get((at, label)) for at in ("login", *IDS[2:]) for label in labels)
        people = dict.fromkeys(one for one in known_by if one and _may_be(one, hand_in))
        if people:  # an id of one and the login of another says nothing
            return next(iter(people)) if len(people) == 1 else None
        if hand_in.platform == "clone":
            folded = _folded(hand_in.student)
            ends = [one for one in self.people if one.github and folded.endswith(f"-{_folded(one.github)}")]
            if ends:
                return max(ends, key=lambda one: len(one.github))
        named = [
            one
            for one in self.people
            if _may_be(one, hand_in) and any(_same_name(one.name, label) for label in (hand_in.name, found))
        ]
        return named[0] if len(named) == 1 else None

    def called(self, text: str) -> tuple[Person, ...]:
        """Everybody whom a text names, by login, id or name."""
        wanted = _folded(text)
        ids = (self._by_id.get((column, wanted)) for column in ("login", *IDS))
        named = (person for person in self.people if _same_name(person.name, text))
        return tuple(dict.fromkeys([*filter(None, ids), *named]))

    @cached_property
    def _by_id(self) -> Mapping[tuple[str, str], Person]:
        return {
            (at, _folded(value)): one for one in self.people for at in ("login", *IDS) if (value := getattr(one, at))
        }


def _may_be(person: Person, hand_in: HandIn) -> bool:
    """Whether the platform's number does not speak against it."""
    column = OF_PLATFORM.get(hand_in.platform)
    return not (column and hand_in.number and getattr(person, column))


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(text: str) -> list[str]:
    """What lies between spaces and punctuation; a vowel sign is part of its word."""
    return "".join(one if one == "_" or unicodedata.category(one)[0] in "LNM" else " " for one in _folded(text)).split()


def _same_name(name: str, text: str) -> bool:
    """Whether two names have the same words in any order, also where a platform wrote them without spaces (doejane)."""
    ours, theirs = _words(name), _words(text)
    if not ours or not theirs:
        return False
    rotations = {"".join(ours[at:] + ours[:at]) for at in range(len(ours))}
    return sorted(ours) == sorted(theirs) or "".join(theirs) in rotations


# ---------------------------------------------------------------- reading


def load_roster(path: Path) -> Roster:
    """Reads a roster; commas or semicolons, UTF-8. Raises Unusable with a sentence for each row that cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise Unusable(
                f"{path} has more than {MAX_BYTES >> 20} MB; expected a CSV file with a row for each student"
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} cannot be read ({error}); save it as CSV in UTF-8") from None
    head = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=";" if head.count(";") > head.count(",") else ",")
    try:
        titles = [title.strip().lower().replace(" ", "_") for title in next(rows, [])]
        header = [ALIASES.get(title, title) for title in titles]
        _check_header(path, header)
        found = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise Unusable(
            f"{path} line {rows.line_num} is not CSV ({error}); save it again from the spreadsheet"
        ) from None
    people, problems = _people(path.name, header, found)
    if not people and not problems:
        problems = [f"{path.name} has no row below its header; expected one for each student"]
    if problems:
        more = len(problems) - MAX_REPORTED
        raise Unusable("\n".join([*problems[:MAX_REPORTED], *([f"and {more} more"] if more > 0 else [])]))
    return Roster(tuple(people), path.name)


def _check_header(path: Path, header: list[str]) -> None:
    unknown = [title for title in header if title not in COLUMNS]
    twice = [title for title in header if header.count(title) > 1]
    if unknown or twice or "login" not in header:
        what = f"a column {unknown[0]!r}" if unknown else f"two columns {twice[0]!r}" if twice else "no column 'login'"
        raise Unusable(f"{path.name} has {what}; expected login and any of {', '.join(COLUMNS[1:])}")


def _people(name: str, header: list[str], rows: Iterable[tuple[int, list[str]]]) -> tuple[list[Person], list[str]]:
    """The rows as people, and what is wrong with them, a sentence each. rows: each with the line where it ends."""
    people: list[Person] = []
    problems: list[str] = []
    met: dict[tuple[str, str], int] = {}
    for line, row in rows:
        cells = {title: cell.strip() for title, cell in zip(header, row, strict=False) if cell.strip()}
        typed = {title: read(cells[title]) for title, (read, _) in TYPED.items() if title in cells}
        wrong = []
        if any(map(str.strip, row[len(header) :])):
            wrong.append(f"has {len(row)} cells, expected {len(header)}; put quotes around a cell with a comma in it")
        if "login" not in cells:
            wrong.append("has no login, expected one for every student")
        unread = [title for title, value in typed.items() if value is None]
        wrong += [f"has {title} {cells[title]!r}, expected {TYPED[title][1]}" for title in unread]
        wrong += [
            f"has the {title} {cells[title]!r} of line {first}; expected one row for each student"
            for title in ("login", *IDS)
            if title in cells and (first := met.setdefault((title, _folded(cells[title])), line)) != line
        ]
        if ("override" in cells) != ("reason" in cells):
            there, missing = ("override", "reason") if "override" in cells else ("reason", "override")
            wrong.append(f"has the {there} {cells[there]!r} but no {missing}; expected both or neither")
        problems += [f"{name} line {line} {what}" for what in wrong]
        if not wrong:
            people.append(Person(**(cells | typed)))  # type: ignore[arg-type]
    return people, problems


def _number(text: str) -> float | None:
    try:
        found = float(text.replace(",", "."))
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _time(text: str) -> datetime | None:
    return moment(text) if re.search(r"\d[T ]+\d?\d:\d\d", text) else None


def _digits(text: str) -> str | None:
    found = re.sub(r"(?i)^participant\s+", "", text)
    return found if found.isascii() and found.isdigit() else None


TYPED: Mapping[str, tuple[Callable[[str], object], str]] = {
    "extension_days": (_number, "a number of days from 0, such as 2"),
    "override": (_number, "points from 0, such as 54.5"),
    "handed_in": (_time, "a date and a time such as 2026-11-20 23:58 (UTC where no zone is named)"),
    "canvas_id": (_digits, "the number in the column ID of Canvas's gradebook export"),
    "moodle_id": (_digits, "the number of Moodle's participant, such as 501"),
}


def on_roster(hand_ins: Iterable[HandIn], roster: Roster) -> list[HandIn]:
    """The hand-ins under the logins of the roster; who is not on it keeps the name that was found, and so do several students who would
    all be one row by their names."""
    hand_ins = list(hand_ins)
    people = [roster.owner(one) for one in hand_ins]
    people = [person or member for person, member in zip(people, _members(hand_ins, roster), strict=True)]
    clones = _beginning([one.student for one in hand_ins if one.platform == "clone"])
    doubtful = _doubtful(hand_ins, people, clones)
    claims: dict[str, list[HandIn]] = {}
    logins = set(map(_folded, roster.by_login))
    people = [None if doubt else person for person, doubt in zip(people, doubtful, strict=True)]
    for one, person in zip(hand_ins, people, strict=True):
        claims.setdefault(person.login if person else "", []).append(one)
    placed = []
    for one, person, doubt in zip(hand_ins, people, doubtful, strict=True):
        sentence, taken = doubt, _folded(one.student) in logins
        if person and _has_rivals(one, person, claims[person.login], clones):
            sentence = (
                f"several students fit the row {person.login} of {roster.name}; write the platform's id of each into it"
            )
        elif not (person or doubt) and taken:
            sentence = f"{one.student} is the login of one row of {roster.name} and an id of another; rename it"
        if sentence:
            login = f"{one.student} ({one.number or 'unclear'})" if taken else one.student  # to be nobody's login
            one = replace(one.noting(sentence), student=login, label=one.student)
        elif person:
            one = replace(one, student=person.login, label=one.student)
        placed.append(one)
    return placed


def _doubtful(hand_ins: Sequence[HandIn], people: Sequence[Person | None], clones: str) -> list[str]:
    """For each that fits a row by less than its whole name, why it is not taken for that row's; "" for all others."""
    of_moodle = [one for one in hand_ins if one.platform == "moodle" and one.number]
    ids = {person.moodle_id for person in people if person}
    few = 2 * sum(one.number in ids for one in of_moodle) < len(of_moodle)
    return [
        (_of_a_team(one, person, few=few) or _of_another(one, person, clones)) if person else ""
        for one, person in zip(hand_ins, people, strict=True)
    ]


def _of_a_team(hand_in: HandIn, person: Person, *, few: bool) -> str:
    """Where few of Moodle's numbers are on the roster they are teams' or another course's. few: whether it is so."""
    by_number = few and hand_in.platform == "moodle" and hand_in.number and hand_in.number == person.moodle_id
    if not by_number or set(_words(person.name)) & set(_words(hand_in.student)):
        return ""
    return f"its number is that of {person.login}, its name is not, and few of Moodle's numbers are on the roster"


def _of_another(hand_in: HandIn, person: Person, clones: str) -> str:
    """An account is all that follows what the names of clones begin with: x-ann is not ann."""
    rest = hand_in.student.removeprefix(clones)
    whole = len(rest) <= len(person.github) or _folded(hand_in.student) == _folded(person.login)
    whole = whole or _same_name(person.name, hand_in.student)
    if hand_in.platform != "clone" or not clones or whole:
        return ""
    return f"{rest} is not the account of {person.login}, which its name ends with; write the account into the roster"


def _members(hand_ins: Sequence[HandIn], roster: Roster) -> list[Person | None]:
    """The rows of members of teams: where teams hand in, Moodle puts a team's name and a hyphen before each name. None where not all
    names have one, or few of what follows are names of the roster: then a hyphen is part of a name."""
    of_moodle = [one for one in hand_ins if one.platform == "moodle"]
    found = [_in_a_team(one, roster) if one.platform == "moodle" else None for one in hand_ins]
    known = sum(map(bool, found))
    teams = known > 1 and 2 * known > len(of_moodle) and all("-" in one.student for one in of_moodle)
    return found if teams else [None] * len(found)


def _in_a_team(hand_in: HandIn, roster: Roster) -> Person | None:
    """The row that has the platform's number, or alone the longest name that follows a hyphen."""
    words = hand_in.student.split("-")
    for rest in ("-".join(words[at:]) for at in range(1, len(words))):
        if (person := roster.owner(replace(hand_in, student=rest))) and _same_name(person.name, rest):
            return person
    return None


def _beginning(names: Sequence[str]) -> str:
    """What most of these begin with, up to a hyphen; a repository that is another's changes nothing. "" where it cannot be told."""
    having = Counter(name[:at] for name in set(names) for at in range(1, len(name) + 1) if name[at - 1] == "-")
    found = [beginning for beginning, count in having.items() if count == max(having.values())]
    longest = max(found, key=len, default="")
    return longest if all(map(longest.startswith, found)) else ""


def _has_rivals(hand_in: HandIn, person: Person, claims: Sequence[HandIn], clones: str) -> bool:
    """Whether others whom the platform tells apart are this row by their names, too, and nothing more than a name says that it is this one.
    clones: what the names of clones begin with, so that the rest may be all of an account's name."""
    others = [one for one in claims if one.platform == hand_in.platform]
    if hand_in.platform == "clone":
        whole = [_folded(one.student.removeprefix(clones)) == _folded(person.github) for one in others]
        return any(whole) and not whole[others.index(hand_in)]
    column = OF_PLATFORM.get(hand_in.platform)
    if column is None or len({one.number or one.email for one in others} - {""}) < 2:
        return False
    pairs = ((hand_in.number, getattr(person, column)), (hand_in.email, person.email))
    return not any(own and _folded(own) == _folded(known) for own, known in pairs)
