"""Which folders of students are assignments? Those that nbgrader made, or that are asked for: no student names one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.batch.class_folder import OF_A_COURSE
from grader.classroom.batch.folders import children, is_folder, may_be_work

TIMESTAMP = "timestamp.txt"
"""What nbgrader writes beside the sources of an assignment."""


@dataclass(frozen=True)
class Assignments:
    """names: of the students' folders that are assignments. stamped: whether nbgrader's times in these count."""

    names: frozenset[str] = frozenset()
    stamped: bool = False


def assignments_in(root: Path, asked: str | None, *, submitted: bool) -> Assignments:
    """Which folders of the students in a class's folder are assignments. asked: the one that is to be graded. submitted: whether the
    folder has the name of nbgrader's.

    Beside a course all are, and the one that is asked for is. Else nbgrader's folder is known by its form, which no student makes alone:
    of most students it has folders and nothing else. Assignments are those folders that two students have, or that are stamped where half
    of all folders are.
    """
    if submitted and any((root.parent / name).exists() for name in OF_A_COURSE):
        return Assignments(frozenset(one.name for each in _students(root) for one in each if is_folder(one)), True)
    students = [each for each in _students(root) if each]
    formed = list(filter(_as_nbgrader_has_it, students))
    chosen = {asked} if asked else set()
    if not (submitted or asked) or 2 * len(formed) <= len(students):
        return Assignments(frozenset(chosen))
    folders = [one for each in formed for one in each if is_folder(one)]
    stamped = 2 * sum(map(is_stamped, folders)) >= len(folders)
    return Assignments(frozenset(chosen | _shared(folders, stamped)), stamped)


def _shared(folders: Sequence[Path], stamped: bool) -> set[str]:
    """The names that two students have, and those of stamped folders where stamps count."""
    having = Counter(one.name for one in folders)
    return {one.name for one in folders if having[one.name] > 1 or (stamped and is_stamped(one))}


def _as_nbgrader_has_it(within: Sequence[Path]) -> bool:
    """Whether a student's folder has folders, and no work beside them that was not stamped."""
    beside = any(may_be_work(one) for one in within if not is_folder(one))
    return any(map(is_folder, within)) and (not beside or any(map(is_stamped, within)))


def _students(root: Path) -> Iterator[list[Path]]:
    """What each student of a class handed in: what is in the folder, or a file among others; nothing of what cannot be read."""
    for one in children(root):
        if is_folder(one):
            yield children(one)
        elif may_be_work(one):
            yield [one]


def is_stamped(folder: Path) -> bool:
    """Whether nbgrader's time lies there beside something else, or a student's imitation of it."""
    return is_folder(folder) and os.path.lexists(folder / TIMESTAMP) and len(children(folder)) > 1
