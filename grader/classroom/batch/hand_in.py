"""One thing handed in by one student: where it lies, whose it is, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from grader.classroom.batch.platforms import Platform


@dataclass(frozen=True)
class HandIn:
    """One thing handed in by one student: a file or a folder to grade, or the sentence why it cannot be read.

    `place` is where it came from, relative to what was given; with `student` and `assignment` it names the hand-in.
    `late` is the learning platform's own word for it, where it gives one without a time. `failed` says why the grader
    itself could not take it in; then there is no verdict on it. `number` is the student's on `platform`, where that named the files.
    """

    student: str
    assignment: str
    place: str
    path: Path
    submitted: datetime | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()
    late: bool = False
    failed: str = ""
    platform: Platform = ""
    number: str = ""

    @property
    def key(self) -> str:
        """Names the hand-in in one run."""
        return f"{self.student}/{self.assignment}/{self.place}"
