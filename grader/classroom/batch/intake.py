"""Who handed in what, and when? Turns a folder or a bulk download into a list of hand-ins.

Read are nbgrader's submitted/{student}/{assignment}/, a folder of folders, and the bulk downloads of Canvas, Moodle
and Gradescope, as a zip archive or unpacked.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from grader.classroom.batch.archives import MAX_NOTES, MAX_STUDENT_BYTES, MAX_TOTAL_BYTES, UnusableArchive, notes_on
from grader.classroom.batch.folders import (
    MAX_LISTED,
    Unpack,
    Unpacking,
    children,
    copied,
    is_archive,
    is_repository,
    nothing_to_grade,
    source_root,
    unpack_here,
    unreadable,
)
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.platforms import Named, Platform, named, owner, student_of_folder
from grader.classroom.batch.times import modified, moment, newest, timestamp
from grader.classroom.batch.workers import WorkFailed
from grader.reading.files import is_source, opened_plain

MAX_ASSIGNMENTS = 50
"""Folders of one student that are taken for assignments."""

TIMESTAMP = "timestamp.txt"
GRADESCOPE_METADATA = "submission_metadata.yml"
MAX_METADATA_BYTES = 64 << 20


class UnusableSubmissions(ValueError):
    """Nothing here can be a class's submissions; the message is one sentence."""


def collect(
    path: Path, workspace: Path, *, assignment: str | None = None, unpack: Unpack = unpack_here
) -> list[HandIn]:
    """Every hand-in below `path`, by student and time; archives are unpacked below `workspace`.

    `assignment`: of nbgrader's folders only this one. What goes wrong with one hand-in costs that one. Raises
    UnusableSubmissions when there is nothing to grade.
    """
    if not path.exists():
        raise UnusableSubmissions(f"{path} does not exist; give the folder or the zip archive of the submissions")
    unpacking = Unpacking(workspace, unpack)
    found = list(_archive(path, path.name, unpacking) if path.is_file() else _folder(path, unpacking))
    if assignment is not None:
        names = sorted({hand_in.assignment for hand_in in found if hand_in.assignment})
        found = [hand_in for hand_in in found if hand_in.assignment in ("", assignment)]
        if not found:
            raise UnusableSubmissions(f"{path} has no assignment {assignment!r}; it has {', '.join(names) or 'none'}")
    if not found:
        raise UnusableSubmissions(
            f"{path} holds no submissions; expected a folder for each student with .py or .ipynb files in it, or the "
            "bulk download of Canvas, Moodle or Gradescope"
        )
    return sorted(found, key=lambda hand_in: (hand_in.student, hand_in.assignment, _time(hand_in), hand_in.place))


def _time(hand_in: HandIn) -> datetime:
    return hand_in.submitted or datetime.min.replace(tzinfo=UTC)


def _guarded(student: str, place: str, path: Path, take: Callable[[], Iterable[HandIn]]) -> list[HandIn]:
    """What one student handed in; any error there becomes that student's, and nobody else's."""
    try:
        return list(take())
    except Exception as error:  # file systems and archives raise what they like
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        advice = (
            "free some space and run the same command again" if _disk_full(error) else "grade it by itself and look"
        )
        found = reason if isinstance(error, WorkFailed) else f"{type(error).__name__}: {reason}; {advice}"
        return [HandIn(student, "", place, path, failed=f"the hand-in could not be taken in: {found}")]


def _disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and (not error.errno or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


# ---------------------------------------------------------------- kinds of folders


def _folder(root: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    if (root / GRADESCOPE_METADATA).is_file():
        yield from _gradescope(root, unpacking)
        return
    within = children(root)
    files = [child for child in within if child.is_symlink() or not child.is_dir()]
    platforms = {found.platform for found in map(named, (file.name for file in files)) if found}
    if platforms:
        yield from _named_files(files, "canvas" if "canvas" in platforms else "moodle", unpacking)
    else:
        for file in files:
            yield from _guarded(file.stem, file.name, file, partial(_loose, file, unpacking))
    for child in within:
        if child.is_dir() and not child.is_symlink():
            student = student_of_folder(child.name)
            yield from _guarded(student, child.name, child, partial(_student, student, child, unpacking))


def _loose(file: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """A file that lies among the students' folders is named after its student."""
    if is_archive(file):
        yield _unpacked(HandIn(file.stem, "", file.name, file, modified(file)), [file], unpacking)
    elif is_source(file):
        yield HandIn(file.stem, "", file.name, file, modified(file))


def _student(student: str, folder: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """A folder named after a student: its files, or a folder for each assignment. Moodle's is one submission, whatever is in it."""
    name = named(folder.name)
    known = name if name is not None and name.platform == "moodle" else None
    whole = HandIn(student, "", folder.name, folder, platform="moodle" if known else "", number=known.number if known else "")
    try:
        within = children(folder)
    except PermissionError as error:
        yield replace(whole, refused=unreadable(folder, error))
        return
    folders = [child for child in within if child.is_dir() and not child.is_symlink()]
    if known or any(map(is_source, within)) or not folders or is_repository(folder):
        yield _one(whole, within, unpacking)
        return
    room = MAX_STUDENT_BYTES // min(len(folders), MAX_ASSIGNMENTS)
    for child in folders[:MAX_ASSIGNMENTS]:
        one = replace(whole, assignment=child.name, place=f"{folder.name}/{child.name}", path=child)
        try:
            yield _one(one, children(child), unpacking, room)
        except PermissionError as error:
            yield replace(one, refused=unreadable(child, error))


def _one(hand_in: HandIn, within: list[Path], unpacking: Unpacking, room: int = MAX_STUDENT_BYTES) -> HandIn:
    """The hand-in that a folder holds: its sources, else those in its archives, else those in the folders that it wraps.

    room: the bytes to which its archives may be unpacked.
    """
    folder, stamp = hand_in.path, hand_in.path / TIMESTAMP
    hand_in = replace(hand_in, submitted=timestamp(stamp))
    notes: tuple[str, ...] = ()
    if hand_in.submitted is None and os.path.lexists(stamp):
        notes += (f"{hand_in.place}/{TIMESTAMP} holds no time such as 2026-11-20 23:58:00 UTC, so it counts as in time",)
    if len(within) >= MAX_LISTED:
        notes += (f"{folder.name} holds {MAX_LISTED} entries or more",)
    clone = is_repository(folder)
    if any(map(is_source, within)) and not clone:
        return replace(hand_in, notes=notes)
    archives = [child for child in within if is_archive(child)]
    if archives and not clone:
        return _unpacked(replace(hand_in, notes=notes), archives, unpacking, room)
    root, said = source_root(folder, unpacking)
    if root is None:
        said = (nothing_to_grade(folder.name, [child for child in within if child != stamp]),)
    return replace(hand_in, path=root or folder, notes=said + notes)


def _unpacked(hand_in: HandIn, archives: list[Path], unpacking: Unpacking, room: int = MAX_STUDENT_BYTES) -> HandIn:
    """The hand-in that archives hold together."""
    folder, notes = unpacking.all(archives, f"{hand_in.student} {archives[0].stem}", room)
    root, said = source_root(folder, unpacking)
    place = archives[0].name if len(archives) == 1 else hand_in.place
    refused = "" if root else "; ".join(notes) or nothing_to_grade(place, children(folder) if len(archives) == 1 else ())
    place = hand_in.place if hand_in.place.endswith(archives[0].name) else f"{hand_in.place}/{archives[0].name}"
    return replace(hand_in, place=place, path=root or archives[0], refused=refused, notes=hand_in.notes + notes + said)


def _named_files(files: Iterable[Path], platform: Platform, unpacking: Unpacking) -> Iterator[HandIn]:
    """A platform puts all files of a class side by side; those of one student are one submission. Of two with one name the later counts."""
    groups: dict[tuple[str, str], list[tuple[Named, Path]]] = {}
    for file in files:
        found = named(file.name)
        if found is not None and found.platform == platform:
            groups.setdefault((found.student, found.number), []).append((found, file))
    for group in groups.values():
        group.sort(key=lambda one: -one[0].attachment)
        whose = replace(group[0][0], late=any(found.late for found, _ in group))
        place, parts = whose.submission, [(file, found.file) for found, file in group]
        yield from _guarded(whose.student, place, parts[0][0], partial(_together, whose, place, parts, unpacking))


def _together(whose: Named, place: str, parts: list[tuple[Path, str]], unpacking: Unpacking) -> Iterator[HandIn]:
    """Files that lay beside those of others, copied under their own names into a folder of their own, with what archives hold."""
    archives = [file for file, name in parts if is_archive(Path(name)) and not file.is_symlink()]
    folder, left_out = unpacking.all(archives, f"{whose.student} {place}")
    notes = copied([(file, name) for file, name in parts if is_source(Path(name)) or file.is_symlink()], folder) + left_out
    root, said = source_root(folder, unpacking)
    refused = "" if root else "; ".join(notes) or nothing_to_grade(place, [Path(name) for _, name in parts])
    # Canvas packs anew for each download, and stamps the files with that time: only LATE in their names says anything.
    submitted = None if whose.platform == "canvas" else newest(file for file, _ in parts)
    yield HandIn(
        whose.student, "", place, root or folder, submitted, refused, notes + said, whose.late,
        platform=whose.platform, number=whose.number,
    )  # fmt: skip


def _gradescope(root: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """submission_metadata.yml names who submitted each folder submission_<number>, and when."""
    import yaml

    try:
        with opened_plain(root / GRADESCOPE_METADATA) as file:
            metadata: Any = yaml.safe_load(file.read(MAX_METADATA_BYTES).decode("utf-8"))
        entries = list(metadata.items())
    except (OSError, ValueError, yaml.YAMLError, AttributeError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnusableSubmissions(
            f"{GRADESCOPE_METADATA} cannot be read ({reason}); download the export again"
        ) from None
    for name, entry in entries:
        folder = root / Path(str(name)).name
        yield from _guarded(str(name), str(name), folder, partial(_listed, str(name), entry, folder, unpacking))


def _listed(name: str, entry: Any, folder: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """The hand-ins of one entry of submission_metadata.yml, one for each who submitted it."""
    known = entry if isinstance(entry, dict) else {}
    people = known.get(":submitters")
    submitters = [person for person in people if isinstance(person, dict)] if isinstance(people, list) else []
    submitted = moment(known.get(":created_at"))
    notes: tuple[str, ...] = ()
    source: Path | None = None
    if not folder.is_dir():
        refused = f"{name} is listed in {GRADESCOPE_METADATA}, but its folder is missing"
    else:
        source, notes = source_root(folder, unpacking)
        refused = "" if source else nothing_to_grade(name, children(folder))
    for person in submitters or [{}]:
        label = person.get(":sid") or person.get(":email") or person.get(":name") or name
        yield HandIn(str(label), "", name, source or folder, submitted, refused, notes)


# ---------------------------------------------------------------- pieces


def _archive(path: Path, place: str, unpacking: Unpacking) -> Iterator[HandIn]:
    """The download of a whole class, or one student's zip (sources at its root) given by itself.

    An archive that lies among those of others is never read as a class: its owner could speak for the others.
    """
    folder = unpacking.fresh(path.stem)
    try:
        refused = unpacking.unpack(path.resolve(), folder, MAX_TOTAL_BYTES)
    except UnusableArchive as error:
        yield HandIn(path.stem, "", place, path, refused=str(error))
        return
    notes = tuple(f"{place}: {entry.name} {entry.reason}" for entry in refused)
    folder = _unwrapped(folder)
    if is_repository(folder) or _is_one_students(folder):
        root, said = source_root(folder, unpacking)
        yield HandIn(path.stem, "", place, root or folder, modified(path), notes=notes_on(place, refused) + said)
        return
    inside = list(_folder(folder, unpacking))
    if not inside:
        sentence = "; ".join(notes) or nothing_to_grade(place, ())
        yield HandIn(path.stem, "", place, path, refused=sentence)
    for hand_in in inside:
        own = tuple(note for note in notes if hand_in.student in note)[:MAX_NOTES]
        yield replace(hand_in, place=f"{place}/{hand_in.place}", notes=hand_in.notes + own)
    known = {hand_in.student for hand_in in inside}
    for entry in refused:
        whose = owner(entry.name)
        if whose and whose not in known:
            yield HandIn(whose, "", f"{place}/{entry.name}", path, refused=f"{entry.name} {entry.reason}")


def _unwrapped(folder: Path) -> Path:
    """The folder itself, or what lies in it where folders only wrap each other. A student's own folder is no wrapper."""
    within = children(folder)
    while len(within) == 1 and within[0].is_dir():
        inner = children(within[0])
        if student_of_folder(within[0].name) != within[0].name or any(map(is_source, inner)):
            break
        folder, within = within[0], inner
    return folder


def _is_one_students(folder: Path) -> bool:
    """Whether sources lie there whose names are those of no class download."""
    plain = [child.name for child in children(folder) if is_source(child)]
    return bool(plain) and not any(map(named, plain))
