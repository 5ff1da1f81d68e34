"""Whose work is it? What the names that Canvas and Moodle give to files and folders say.

A platform's number for a student is known only where the platform named the file: a folder called `ann_2` says nothing of the kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

CANVAS = re.compile(r"(?P<student>[^_/]+)_(?P<late>LATE_)?(?P<number>\d+)_(?P<attachment>\d{1,30})_(?P<file>.+)")
"""lastnamefirstname_[LATE_]userid_attachmentid_filename: one flat folder for the whole class.

Each file has an attachment id of its own, and the download holds each student's current submission only: what one user
has there is one submission.
"""

MOODLE = re.compile(r"(?P<student>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.+)?)?")
"""Full Name_participant_assignsubmission_file_: a folder a student, or a prefix of the file's name."""

Platform = Literal["", "canvas", "moodle", "gradescope", "clone"]


@dataclass(frozen=True)
class Named:
    """What one name says. number: the platform's for the student, Canvas's user or Moodle's participant; file: the student's own name.

    attachment: Canvas's number of the file, larger for what came later; 0 elsewhere.
    """

    platform: Platform
    student: str
    number: str
    file: str
    submission: str = ""
    late: bool = False
    attachment: int = 0


def named(name: str) -> Named | None:
    """What a platform's name for a file or folder says; None for a name that is no platform's."""
    if canvas := CANVAS.fullmatch(name):
        student = f"{canvas['student']}_{canvas['number']}"
        place = f"canvas user {canvas['number']}"
        return Named("canvas", student, canvas["number"], canvas["file"], place, bool(canvas["late"]), int(canvas["attachment"]))
    if moodle := MOODLE.fullmatch(name):
        return Named("moodle", moodle["student"], moodle["number"], moodle["file"] or name, f"moodle participant {moodle['number']}")
    return None


def student_of_folder(name: str) -> str:
    """The student after whom a folder is named, plainly or in Moodle's way."""
    found = named(name)
    return found.student if found is not None and found.platform == "moodle" else name


def owner(name: str) -> str | None:
    """The student whose file an archive's refused entry would have been."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for part in reversed(parts):
        found = named(part)
        if found is not None:
            return found.student
    return parts[-2] if len(parts) > 1 and ".." not in name else None
