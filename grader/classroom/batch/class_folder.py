"""Is a folder a class's, or one student's? What platforms and nbgrader call things, and what lies beside each other, tell.

And which folders of students are assignments? Those that nbgrader made, or that are asked for: no student names one.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.batch.accounts import SYSTEMS
from grader.classroom.batch.begun import is_work
from grader.classroom.batch.folders import (
    are_of_several,
    children,
    is_archive,
    is_folder,
    is_repository,
    levels,
    may_be_work,
)
from grader.classroom.batch.platforms import Platform, named
from grader.labs import all_labs
from grader.reading.files import is_source

SUBMITTED = "submitted"
"""nbgrader's folder of what was handed in."""

GRADESCOPE_METADATA = "submission_metadata.yml"
TABLES = (".csv", ".xlsx", ".ods")
"""Of an assistant's: rosters and exports."""
OF_WORK = frozenset(
    "lab task part step attempt try version v old new draft final copy src source kernel solution assignment notebook question bonus code "
    "test run backup my triton".split()
)
"""The words of which students make names for their own files and folders, in the singular."""
OF_A_COURSE = ("source", "release", "autograded", "nbgrader_config.py", "gradebook.db")
"""Of these some lie beside it."""
TIMESTAMP = "timestamp.txt"
"""What nbgrader writes beside the sources of an assignment."""


def unwrapped(folder: Path) -> Path:
    """The folder itself, or what lies in it where folders only wrap each other; of nbgrader's course its submitted/. A student's own
    folder, in which sources or what is named after work lies, is no wrapper. One beside an empty folder, which may be that of a student
    who handed in nothing, is one only where several in it wrote the same kernel: names of a platform or of nbgrader may be the student's.
    """
    within, outer = telling(folder), None
    while (
        len(within) == 1 and is_folder(within[0]) and not named(within[0].name, "moodle") and folder.name != SUBMITTED
    ):
        inner = telling(within[0])
        own = any(map(is_source, inner)) or (len(inner) > 1 and any(map(is_named_after_work, inner)))
        if own and not (_is_download(inner) or are_students(inner)) and _course_in(within[0]) == within[0]:
            break
        outer = outer or (folder if are_beside_empty(within) else None)
        folder, within = within[0], inner
    found = _course_in(folder)
    if outer is None:
        return found
    by_name = found != folder or folder.name == SUBMITTED or _is_download(within)
    return outer if by_name or not are_of_several(filter(is_folder, within)) else found


def are_beside_empty(within: Sequence[Path]) -> bool:
    """Whether a folder with nothing in it lies beside what a folder holds that tells whose it is."""
    return any(is_folder(one) and one not in within for one in children(within[0].parent))


def telling(folder: Path) -> list[Path]:
    """What a folder holds but for system files, tables, a readme and empty folders, which say nothing of whose it is."""
    found = [one for one in children(folder) if one.suffix.lower() not in TABLES and one.name not in SYSTEMS]
    found = [one for one in found if is_folder(one) or not one.name.lower().startswith("readme")]
    below = {one: [held for level in levels(one) for held in level] for one in found if is_folder(one)}
    return [
        one
        for one in found
        if one not in below
        or any(is_repository(held) or not all(map(is_folder, children(held))) for held in below[one])
    ]


def _is_download(within: Sequence[Path]) -> bool:
    """Whether a platform put it together: Gradescope's list is there, or Canvas or Moodle named what several handed in, or all of one's,
    which a folder's name alone does not say of Canvas."""
    share, owners = share_named(within)
    listed = any(child.name == GRADESCOPE_METADATA for child in within)
    sure = any(named(child.name, "moodle") or (named(child.name) and not is_folder(child)) for child in within)
    return listed or (owners > 1 and share > 0.5) or (owners == 1 and share == 1 and sure)


def platform_of(within: Sequence[Path]) -> Platform:
    """The platform that named at least half of what may be students' work; "" where none did."""
    share, _ = share_named(within)
    of_moodle = [found.platform == "moodle" for child in within if (found := named(child.name))]
    return "" if share < 0.5 else "moodle" if 2 * sum(of_moodle) > len(of_moodle) else "canvas"


def share_named(within: Sequence[Path]) -> tuple[float, int]:
    """Of what may be a student's work, the share that a platform named, and as how many students'. A student may call a file so, too:
    tile_16_32_test.py. Folders count unless they are empty: an archive of Canvas's may have been expanded, and be gone."""
    works = [one for one in within if (children(one) if is_folder(one) else is_source(one) or is_archive(one))]
    known = [found for child in works if (found := named(child.name))]
    return len(known) / max(1, len(works)), len({(found.student, found.number) for found in known})


def _course_in(folder: Path) -> Path:
    """The folder, or nbgrader's submitted/ where it is that of a course."""
    beside = {child.name for child in children(folder)}
    of_course = not beside.isdisjoint(OF_A_COURSE) and is_folder(folder / SUBMITTED)
    return folder / SUBMITTED if of_course else folder


def class_in(path: Path) -> Path:
    """The folder given, or the download or submitted/ that lies in it alone: taken for one student's it would be the whole class's."""
    folder = unwrapped(path)
    within = children(folder)
    of_class = folder.name == SUBMITTED or _is_download(within) or are_of_several(filter(is_folder, within))
    return folder if of_class or are_students(within) else path


def are_students(within: Sequence[Path]) -> bool:
    """Whether several of these have work, more than one student's, and are not named as students name theirs: then each is somebody's.
    Among more than there are labs, some may be."""
    works = [one for one in within if has_work(one)]
    several = are_of_several(works) or sum(map(is_archive, works)) > len(all_labs())
    named_so = sum(map(is_named_after_work, works))
    return several and (not named_so or 2 * named_so < len(works) > len(all_labs()))


def is_named_after_work(path: Path) -> bool:
    """Whether a name begins with that of a lab, or has no other words than those for work, such as attempt_2."""
    name = path.stem.lower()
    words = [word.removesuffix("s") for word in re.findall(r"[^\W\d_]+", name)]
    of_lab = re.match(rf"(?:{'|'.join(all_labs())})(?![^\W\d_])", name)  # ddsouza is somebody
    return bool(of_lab) or (bool(words) and OF_WORK.issuperset(words))


def has_work(path: Path) -> bool:
    """Whether it is an archive, or a source that was begun, or a folder that holds one."""
    below = (file for level in levels(path) for folder in level for file in children(folder))
    files = below if is_folder(path) else [path]
    return any(is_archive(file) or (is_source(file) and is_work(file)) for file in files)


def why_of_others(folder: Path) -> str:
    """Why a folder is no student's hand-in: it holds what a platform says that several handed in, or the list of these. "" where it does
    not. A student may have folders such as run_1_2_x."""
    for level in levels(folder):
        if any(map(is_repository, level)):
            break
        for held in level:
            within = children(held)
            share, owners = share_named([one for one in within if not is_folder(one) or named(one.name, "moodle")])
            if (owners > 1 and share == 1) or any(child.name == GRADESCOPE_METADATA for child in within):
                return f"{held.name} holds what several students handed in; give it by itself"
        if any(is_source(child) or is_archive(child) for held in level for child in children(held)):
            break  # what lies below a student's work is the student's
    return ""


def sections_in(within: Sequence[Path]) -> str:
    """Where nothing holds work but folders in folders, and several of these hold several students' each, as sections do: two of them and
    whom they hold, in words; else "". Folders that two of them hold are assignments, or attempts, of one student."""
    several = [(one.name, list(filter(is_folder, children(one)))) for one in within if is_folder(one)]
    several = [(name, held) for name, held in several if len(held) > 1 and are_of_several(held)]
    known = Counter(child.name for _, held in several for child in held)
    loose = [child for one in within for child in (one, *(children(one) if is_folder(one) else ()))]
    if len(several) < 2 or max(known.values()) > 1 or any(is_repository(one) or may_be_work(one) for one in loose):
        return ""
    return ", ".join(f"{name} has {held[0].name} and {held[1].name}" for name, held in several[:2])


def is_one_students(folder: Path) -> bool:
    """Whether sources lie there whose names are those of no class download or class, beside at most one folder with sources, and no two
    that have one kernel; several with the same kernel are one student's where one of them is named after work."""
    within = children(folder)
    sources = [child for child in within if is_source(child) and not child.is_dir()]
    if any(named(child.name) for child in within) or not sources or are_students(within):
        return False
    if are_of_several(sources) and not any(map(is_named_after_work, sources)):
        return False
    folders = list(filter(is_folder, within))
    return sum(any(map(is_source, children(child))) for child in folders) < 2 and not are_of_several(folders)


# ---------------------------------------------------------------- assignments


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
