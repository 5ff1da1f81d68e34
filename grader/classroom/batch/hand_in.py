"""One thing handed in by one student: where it lies, whose it is, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from grader.classroom.batch.platforms import Platform


@dataclass(frozen=True)
class Left:
    """Why a file of a hand-in is not graded, in a sentence, and what is said of it in files.csv."""

    why: str
    fate: Literal["left out", "unreadable"] = "left out"


@dataclass(frozen=True)
class HandIn:
    """One thing handed in by one student: a file or a folder to grade, or the sentence why it cannot be read.

    `place` is where it came from, relative to what was given; with `student` and `assignment` it names the hand-in. There is none
    where somebody of the roster handed in nothing. `label` is the name that was found, where the roster has another for `student`;
    `name` and `email` are what the platform knows. `number` is the student's on `platform`, where that named the files.
    `late` is the learning platform's own word for it, where it gives one without a time. `failed` says why the grader
    itself could not take it in; then there is no verdict on it. `holds` are the files and folders of the class that are this hand-in's.
    `sources`: by the names of the files in `path` that are read, where each came from: itself, what it was copied from, or the archive
    that it was in. `left` are the files that are not graded.
    `read` are files that only tell names and times. `by_disk`: whether `submitted` is when the file on this disk was
    last changed. `reply` is what the name of a file begins with that goes back to the student through the platform.
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
    label: str = ""
    name: str = ""
    email: str = ""
    holds: tuple[Path, ...] = ()
    sources: Mapping[str, Path] = field(default_factory=dict)
    left: Mapping[Path, Left] = field(default_factory=dict)
    read: tuple[Path, ...] = ()
    reply: str = ""
    by_disk: bool = False

    @property
    def key(self) -> str:
        """Names the hand-in in one run."""
        return f"{self.student}/{self.assignment}/{self.place}"

    @cached_property
    def taken(self) -> frozenset[Path]:
        """The files and archives of the class that are graded."""
        return frozenset(self.sources.values())

    def noting(self, *sentences: str) -> Self:
        """The same, with more that has to be said to the student."""
        return replace(self, notes=(*self.notes, *sentences))
