"""Who handed in what, and when? Turns a folder or a bulk download into a list of hand-ins.

Read are nbgrader's submitted/{student}/{assignment}/, a folder of folders, and the bulk downloads of Canvas, Moodle
and Gradescope, as a zip archive or unpacked.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from grader.classroom.batch.archives import (
    MAX_FILE_BYTES,
    MAX_NOTES,
    MAX_STUDENT_BYTES,
    MAX_TOTAL_BYTES,
    RefusedMember,
    UnusableArchive,
    newest_of,
    notes_on,
    unpack,
)
from grader.classroom.batch.times import modified, moment, newest, timestamp
from grader.classroom.batch.workers import WorkFailed
from grader.reading.files import UnreadableFile, opened_plain

SOURCES = (".py", ".ipynb")
MAX_LISTED = 20_000
MAX_ASSIGNMENTS = 50
"""Folders of one student that are taken for assignments."""

TIMESTAMP = "timestamp.txt"
GRADESCOPE_METADATA = "submission_metadata.yml"
MAX_METADATA_BYTES = 64 << 20

CANVAS = re.compile(r"(?P<student>[^_/]+)_(?P<late>LATE_)?(?P<user>\d+)_(?P<submission>\d+)_(?P<file>.+)")
"""lastnamefirstname_[LATE_]userid_submissionid_filename: one flat folder for the whole class."""

MOODLE = re.compile(r"(?P<student>.+)_(?P<participant>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.+)?)?")
"""Full Name_participant_assignsubmission_file_: a folder a student, or a prefix of the file's name."""


class UnusableSubmissions(ValueError):
    """Nothing here can be a class's submissions; the message is one sentence."""


@dataclass(frozen=True)
class HandIn:
    """One thing handed in by one student: a file or a folder to grade, or the sentence why it cannot be read.

    `place` is where it came from, relative to what was given; with `student` and `assignment` it names the hand-in.
    `late` is the learning platform's own word for it, where it gives one without a time. `failed` says why the grader
    itself could not take it in; then there is no verdict on it.
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

    @property
    def key(self) -> str:
        """Names the hand-in in one run."""
        return f"{self.student}/{self.assignment}/{self.place}"


Unpack = Callable[[Path, Path, int], list[RefusedMember]]
"""Unpacks an archive into a folder, at most so many bytes, as `archives.unpack` does."""


def unpack_here(archive: Path, target: Path, max_bytes: int) -> list[RefusedMember]:
    """Unpacks in this process."""
    return unpack(archive, target, max_bytes=max_bytes)


@dataclass(frozen=True)
class _Unpacking:
    """Where archives are unpacked, and by what."""

    workspace: Path
    unpack: Unpack
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh(self, name: str) -> Path:
        """A folder of its own for every hand-in."""
        safe = re.sub(r"[^A-Za-z0-9.-]+", "_", name)[:80]
        folder = self.workspace / f"{safe}.{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder


def collect(
    path: Path, workspace: Path, *, assignment: str | None = None, unpack: Unpack = unpack_here
) -> list[HandIn]:
    """Every hand-in below `path`, by student and time; archives are unpacked below `workspace`.

    `assignment`: of nbgrader's folders only this one. What goes wrong with one hand-in costs that one. Raises
    UnusableSubmissions when there is nothing to grade.
    """
    if not path.exists():
        raise UnusableSubmissions(f"{path} does not exist; give the folder or the zip archive of the submissions")
    unpacking = _Unpacking(workspace, unpack)
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


def _folder(root: Path, unpacking: _Unpacking) -> Iterator[HandIn]:
    children = _children(root)
    if (root / GRADESCOPE_METADATA).is_file():
        yield from _gradescope(root)
        return
    named = [child for child in children if child.is_symlink() or not child.is_dir()]
    if any(CANVAS.fullmatch(child.name) for child in named):
        yield from _canvas(named, unpacking)
    elif any(MOODLE.fullmatch(child.name) for child in named):
        yield from _moodle_files(named, unpacking)
    else:
        for child in named:
            yield from _guarded(child.stem, child.name, child, partial(_loose, child, unpacking))
    for child in children:
        if child.is_dir() and not child.is_symlink():
            yield from _guarded(_named_after(child), child.name, child, partial(_student, child, unpacking))


def _loose(file: Path, unpacking: _Unpacking) -> Iterator[HandIn]:
    """A file that lies among the students' folders is named after its student."""
    if file.suffix.lower() == ".zip":
        yield _unpacked(file.stem, "", file, file.name, modified(file), unpacking)
    elif file.suffix in SOURCES:
        yield HandIn(file.stem, "", file.name, file, modified(file))


def _named_after(folder: Path) -> str:
    moodle = MOODLE.fullmatch(folder.name)
    return moodle["student"] if moodle else folder.name


def _student(folder: Path, unpacking: _Unpacking) -> Iterator[HandIn]:
    """A folder named after a student (plainly, or in Moodle's way): its files, or a folder for each assignment."""
    student = _named_after(folder)
    try:
        children = _children(folder)
    except PermissionError as error:
        yield HandIn(student, "", folder.name, folder, refused=_unreadable(folder, error))
        return
    folders = [child for child in children if child.is_dir() and not child.is_symlink()]
    if any(child.suffix in SOURCES for child in children) or not folders:
        yield from _one(student, "", folder, folder.name, children, unpacking)
        return
    room = MAX_STUDENT_BYTES // min(len(folders), MAX_ASSIGNMENTS)
    for child in folders[:MAX_ASSIGNMENTS]:
        place = f"{folder.name}/{child.name}"
        try:
            yield from _one(student, child.name, child, place, _children(child), unpacking, room)
        except PermissionError as error:
            yield HandIn(student, child.name, place, child, refused=_unreadable(child, error))


def _one(
    student: str, assignment: str, folder: Path, place: str, children: list[Path], unpacking: _Unpacking, room: int = MAX_STUDENT_BYTES
) -> Iterator[HandIn]:
    """The hand-in that a folder holds; a zip in a folder without sources is the hand-in itself. room: the bytes it may unpack to."""
    submitted = timestamp(folder / TIMESTAMP)
    sources = [child for child in children if child.suffix in SOURCES]
    archives = [child for child in children if child.suffix.lower() == ".zip"]
    if sources or not archives:
        notes: tuple[str, ...] = ()
        if not sources:
            notes += (f"{folder.name} holds no .py or .ipynb file; ask for the notebook itself",)
        if len(children) >= MAX_LISTED:
            notes += (f"{folder.name} holds {MAX_LISTED} entries or more",)
        if submitted is None and os.path.lexists(folder / TIMESTAMP):
            notes += (f"{place}/{TIMESTAMP} holds no time such as 2026-11-20 23:58:00 UTC, so it counts as in time",)
        yield HandIn(student, assignment, place, folder, submitted, notes=notes)
        return
    chosen, left_out = newest_of(archives)
    for archive in chosen:
        found = _unpacked(
            student, assignment, archive, f"{place}/{archive.name}", submitted, unpacking, room // len(chosen)
        )
        yield replace(found, notes=found.notes + left_out)


def _canvas(files: Iterable[Path], unpacking: _Unpacking) -> Iterator[HandIn]:
    """Canvas puts all files of a class side by side; those of one submission share its number."""
    groups: dict[tuple[str, str, bool], list[tuple[Path, str]]] = {}
    for file in files:
        match = CANVAS.fullmatch(file.name)
        if match:
            student = f"{match['student']}_{match['user']}"
            key = (student, match["submission"], bool(match["late"]))
            groups.setdefault(key, []).append((file, match["file"]))
    for (student, submission, late), parts in groups.items():
        yield from _gathered(student, f"canvas submission {submission}", parts, unpacking, late)


def _moodle_files(files: Iterable[Path], unpacking: _Unpacking) -> Iterator[HandIn]:
    groups: dict[tuple[str, str], list[tuple[Path, str]]] = {}
    for file in files:
        match = MOODLE.fullmatch(file.name)
        if match:
            groups.setdefault((match["student"], match["participant"]), []).append((file, match["file"] or file.name))
    for (student, participant), parts in groups.items():
        yield from _gathered(student, f"moodle participant {participant}", parts, unpacking, False)


def _gathered(
    student: str, place: str, parts: list[tuple[Path, str]], unpacking: _Unpacking, late: bool
) -> list[HandIn]:
    """One student's files that lay beside those of others."""
    return _guarded(student, place, parts[0][0], lambda: [_together(student, place, parts, unpacking, late)])


def _together(student: str, place: str, parts: list[tuple[Path, str]], unpacking: _Unpacking, late: bool) -> HandIn:
    """Files that lay beside those of others, copied under their own names into a folder of their own."""
    folder = unpacking.fresh(f"{student} {place}")
    notes, archives = [], []
    for file, name in parts:
        if file.is_symlink():
            notes.append(f"{file.name} is a link and was left out")
        elif file.suffix.lower() == ".zip":
            archives.append(file)
        elif file.suffix in SOURCES and file.stat().st_size > MAX_FILE_BYTES:
            notes.append(f"{file.name} has more than {MAX_FILE_BYTES >> 20} MB and was left out")
        elif file.suffix in SOURCES:
            try:
                with opened_plain(file) as source, (folder / Path(name).name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
            except UnreadableFile as error:
                notes.append(str(error))
            except PermissionError as error:
                notes.append(_unreadable(file, error))
    chosen, left_out = newest_of(archives)
    notes += left_out
    for archive in chosen:
        try:
            notes += notes_on(archive.name, unpacking.unpack(archive, folder, MAX_STUDENT_BYTES // len(chosen)))
        except UnusableArchive as error:
            notes.append(str(error))
    root = _source_root(folder)
    refused = "" if root else "; ".join(notes) or f"{place} holds no .py or .ipynb file; ask for the notebook itself"
    return HandIn(student, "", place, root or folder, newest(file for file, _ in parts), refused, tuple(notes), late)


def _gradescope(root: Path) -> Iterator[HandIn]:
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
        yield from _guarded(str(name), str(name), folder, partial(_listed, str(name), entry, folder))


def _listed(name: str, entry: Any, folder: Path) -> Iterator[HandIn]:
    """The hand-ins of one entry of submission_metadata.yml, one for each who submitted it."""
    known = entry if isinstance(entry, dict) else {}
    people = known.get(":submitters")
    submitters = [person for person in people if isinstance(person, dict)] if isinstance(people, list) else []
    submitted = moment(known.get(":created_at"))
    for person in submitters or [{}]:
        label = person.get(":sid") or person.get(":email") or person.get(":name") or name
        refused = "" if folder.is_dir() else f"{name} is listed in {GRADESCOPE_METADATA}, but its folder is missing"
        source = _source_root(folder) if not refused else None
        if not refused and source is None:
            refused = f"{name} holds no .py or .ipynb file; ask for the notebook itself"
        yield HandIn(str(label), "", name, source or folder, submitted, refused)


# ---------------------------------------------------------------- pieces


def _archive(path: Path, place: str, unpacking: _Unpacking) -> Iterator[HandIn]:
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
    if _is_one_students(folder):
        yield HandIn(path.stem, "", place, folder, modified(path), notes=notes_on(place, refused))
        return
    inside = list(_folder(folder, unpacking))
    if not inside:
        sentence = "; ".join(notes) or f"{place} holds no .py or .ipynb file; ask for the notebook itself"
        yield HandIn(path.stem, "", place, path, refused=sentence)
    for hand_in in inside:
        own = tuple(note for note in notes if hand_in.student in note)[:MAX_NOTES]
        yield replace(hand_in, place=f"{place}/{hand_in.place}", notes=hand_in.notes + own)
    known = {hand_in.student for hand_in in inside}
    for entry in refused:
        owner = _owner(entry.name)
        if owner and owner not in known:
            yield HandIn(owner, "", f"{place}/{entry.name}", path, refused=f"{entry.name} {entry.reason}")


def _unwrapped(folder: Path) -> Path:
    """The folder itself, or what lies in it where folders only wrap each other. A student's own folder is no wrapper."""
    children = _children(folder)
    while len(children) == 1 and children[0].is_dir():
        inner = _children(children[0])
        if MOODLE.fullmatch(children[0].name) or any(child.suffix in SOURCES for child in inner):
            break
        folder, children = children[0], inner
    return folder


def _is_one_students(folder: Path) -> bool:
    """Whether sources lie there whose names are those of no class download."""
    plain = [child.name for child in _children(folder) if child.suffix in SOURCES]
    return bool(plain) and not any(CANVAS.fullmatch(name) or MOODLE.fullmatch(name) for name in plain)


def _owner(name: str) -> str | None:
    """The student whose file an archive's refused entry would have been."""
    for part in reversed(name.replace("\\", "/").split("/")):
        canvas, moodle = CANVAS.fullmatch(part), MOODLE.fullmatch(part)
        if canvas:
            return f"{canvas['student']}_{canvas['user']}"
        if moodle:
            return moodle["student"]
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return parts[-2] if len(parts) > 1 and ".." not in name else None


def _unpacked(
    student: str, assignment: str, archive: Path, place: str, submitted: datetime | None, unpacking: _Unpacking,
    room: int = MAX_STUDENT_BYTES,
) -> HandIn:  # fmt: skip
    folder = unpacking.fresh(f"{student} {archive.stem}")
    try:
        refused = unpacking.unpack(archive, folder, room)
    except UnusableArchive as error:
        return HandIn(student, assignment, place, archive, submitted, str(error))
    notes = notes_on(archive.name, refused)
    root = _source_root(folder)
    sentence = "" if root else "; ".join(notes) or f"{archive.name} holds no .py or .ipynb file"
    return HandIn(student, assignment, place, root or archive, submitted, sentence, notes)


def _source_root(folder: Path) -> Path | None:
    """The topmost folder that holds sources itself, looking through folders that wrap others."""
    level = [folder]
    for _ in range(4):
        for candidate in level:
            if any(child.suffix in SOURCES for child in _children(candidate)):
                return candidate
        level = [child for candidate in level for child in _children(candidate) if child.is_dir()][:50]
    return None


def _children(folder: Path) -> list[Path]:
    """What a folder holds, hidden entries and what unpackers leave behind excepted, up to a limit."""
    found = []
    for child in folder.iterdir():
        if child.name.startswith((".", "__MACOSX", "__pycache__")):
            continue
        found.append(child)
        if len(found) >= MAX_LISTED:
            break
    return sorted(found)


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path.name} cannot be read ({error.strerror or error}); check its permissions"
