"""Which student a file belongs to, by the names that Canvas, Moodle and other platforms give to files and folders.

A platform's number for a student is known only where the platform named the file: a folder called `ann_2` says nothing of the kind.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

Platform = Literal["", "canvas", "moodle", "gradescope", "clone"]


NO_DATE = r"(?!(?:.*_)?(?:19|20)\d\d_(?:0?[1-9]|1[0-2])_(?:0?[1-9]|[12]\d|3[01])(?!\d))"
"""What a student may well have in a file's name, such as w8a8_2026_11_20.py: no numbers of a user and an attachment."""

QUESTION = r"_question_\d{1,30}_"
"""Of a file in Canvas's download of a quiz: the user's number ends the name before it. Where it stands twice, nobody knows whose it is."""

OF_CANVAS = r"_((?P<attachment>\d{1,30})_(?P<file>.+)|(?P<typed>(text|link)\.html))"
NAME_PATTERNS: tuple[tuple[Platform, str], ...] = (
    ("moodle", r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+(_(?P<file>.+)?)?"),
    (
        "canvas",
        rf"(?P<name>((?!_\d+_)[^/])*?)_?(?P<number>\d{{1,30}})(?P<quiz>{QUESTION})(?!.*{QUESTION})(?P<attachment>\d{{1,30}})_(?P<file>.+)",
    ),
    ("canvas", rf"{NO_DATE}(?P<late>LATE_)?(?P<code>anon_\w+?){OF_CANVAS}"),
    ("canvas", rf"{NO_DATE}(?P<name>[^/]*?)(?<!_question)_(?P<late>LATE_)?(?P<number>\d+){OF_CANVAS}"),
)
"""Canvas's download is one flat folder for the whole class; each file has an attachment id of its own, what was typed into Canvas has none,
and it holds each student's current submission only: what one user has there is one submission. Moodle makes a folder for a student, or
begins the file's name with what would be the folder's; a team_1 of Moodle's has a name that Canvas could have given, too. Of a name
Canvas keeps the letters, where there are any."""

UNREAD = {
    "Blackboard": r".+_[^_]+_attempt_\d{4}(-\d\d){5}.*",
    "Brightspace": r"\d+-\d+ - .+- .+",
    "nbgrader's exchange": r"[^+]+\+[^+]+\+\d{4}-\d\d-\d\d .*",
}
"""What others call a hand-in: whose it is is not read from that."""


@dataclass(frozen=True)
class Named:
    """What one name says. number: the platform's for the student, Canvas's user or Moodle's participant; file: the student's own name.

    attachment: Canvas's number of the file, larger for what came later; 0 elsewhere. reply: what the name of a file begins with that goes
    back to the student, "" where nothing can.
    """

    platform: Platform
    student: str
    number: str
    file: str
    submission: str
    late: bool
    attachment: int
    reply: str


def named(name: str, of: Platform = "") -> Named | None:
    """What a platform's name for a file or folder says; None for a name that is no platform's. of: this one alone; "" any."""
    for platform, pattern in NAME_PATTERNS:
        if of in ("", platform) and (found := re.fullmatch(pattern, name, re.DOTALL)):
            parts = defaultdict(str, found.groupdict(""))
            file, typed, number, code = (parts[part] for part in ("file", "typed", "number", "code"))
            of_moodle = platform == "moodle"
            return Named(
                platform,
                code or (parts["name"] if of_moodle else f"{parts['name']}_{number}"),
                number,
                file or typed or name,
                f"moodle participant {number}" if of_moodle else f"canvas user {code or number}",
                bool(parts["late"]),
                int(parts["attachment"] or 0),
                "" if typed or parts["quiz"] else name.removesuffix(file) if file else f"{name}/",
            )
    return None


def why_unread_name(name: str) -> tuple[str, ...]:
    """A sentence on a name of a platform that is not read; none on any other name."""
    found = next((platform for platform, pattern in UNREAD.items() if re.fullmatch(pattern, name, re.DOTALL)), None)
    sentence = f"its name looks like one of {found}, from which the grader does not read whose it is; rename it after the student's login"
    return (sentence,) if found else ()
