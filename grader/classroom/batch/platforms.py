"""Whose work is it? What the names that Canvas and Moodle give to files and folders say.

A platform's number for a student is known only where the platform named the file: a folder called `ann_2` says nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CANVAS = re.compile(
    r"(?P<late>LATE_)?(?P<anonymous>anon)_(?P<code>\w+?)_(?P<attachment>\d{1,30})_(?P<file>.+)"
    r"|(?P<student>[^/]+?)_(?P<late2>LATE_)?(?P<number>\d+)_(?:(?P<attachment2>\d{1,30})_(?P<file2>.+)|(?P<entry>(?:text|link)\.html))"
)
"""lastnamefirstname_[LATE_]userid_attachmentid_filename: one flat folder for the whole class; [LATE_]anon_code_... under anonymous grading.

Each file has an attachment id of its own, and the download holds each student's current submission only: what one user
has there is one submission. What was typed into Canvas has no attachment id.
"""

MOODLE = re.compile(r"(?P<student>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.+)?)?")
"""Full Name_participant_assignsubmission_file_: a folder a student, or a prefix of the file's name."""

Platform = Literal["", "canvas", "moodle", "gradescope", "clone"]


@dataclass(frozen=True)
class Named:
    """What one name says. number: the platform's for the student, Canvas's user or Moodle's participant; file: the student's own name.

    attachment: Canvas's number of the file, larger for what came later; 0 elsewhere. reply: the name without the student's own.
    """

    platform: Platform
    student: str
    number: str
    file: str
    submission: str = ""
    late: bool = False
    attachment: int = 0
    reply: str = ""


def named(name: str) -> Named | None:
    """What a platform's name for a file or folder says; None for a name that is no platform's."""
    if canvas := CANVAS.fullmatch(name):
        file = canvas["file"] or canvas["file2"] or canvas["entry"]
        late, attachment = (
            bool(canvas["late"] or canvas["late2"]),
            int(canvas["attachment"] or canvas["attachment2"] or 0),
        )
        reply = name.removesuffix(file) if attachment else ""
        if canvas["anonymous"]:
            student = f"anon_{canvas['code']}"
            return Named("canvas", student, "", file, f"canvas user {student}", late, attachment, reply)
        student = f"{canvas['student']}_{canvas['number']}"
        return Named(
            "canvas", student, canvas["number"], file, f"canvas user {canvas['number']}", late, attachment, reply
        )
    if moodle := MOODLE.fullmatch(name):
        file = moodle["file"] or ""
        reply = name.removesuffix(file) if file else f"{name}/"
        return Named(
            "moodle",
            moodle["student"],
            moodle["number"],
            file or name,
            f"moodle participant {moodle['number']}",
            reply=reply,
        )
    return None


def student_of_folder(name: str) -> str:
    """The student after whom a folder is named, plainly or in Moodle's way."""
    found = named(name)
    return found.student if found is not None and found.platform == "moodle" else name


def owner(parts: Sequence[str]) -> str | None:
    """The student whose file an archive's refused entry would have been, from its place below the students' folders."""
    if not parts or ".." in parts:
        return None
    found = named(parts[0])
    if found is not None:
        return found.student
    return parts[0] if len(parts) > 1 else None
