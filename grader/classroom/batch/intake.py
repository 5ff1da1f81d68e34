"""Who handed in what, and when? Turns a folder or a bulk download into a list of hand-ins, and of every file that came.

Read are nbgrader's submitted/{student}/{assignment}/, a folder of folders or of cloned repositories, and the bulk downloads of Canvas,
Moodle and Gradescope, as a zip archive or unpacked.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grader.classroom.batch.accounts import Came, everything_below, with_unread_named
from grader.classroom.batch.archives import MAX_STUDENT_BYTES, MAX_TOTAL_BYTES, RefusedMember, UnusableArchive, notes_on
from grader.classroom.batch.folders import (
    MAX_LISTED,
    Sources,
    Unpack,
    Unpacking,
    are_of_several,
    children,
    copied,
    is_archive,
    is_repository,
    nothing_to_grade,
    source_root,
    topmost_archives,
    unpack_here,
    unreadable,
)
from grader.classroom.batch.hand_in import HandIn
from grader.classroom.batch.marks import ordered
from grader.classroom.batch.platforms import Named, Platform, named, owner, student_of_folder
from grader.classroom.batch.times import committed, modified, moment, timestamp
from grader.classroom.batch.workers import WorkFailed
from grader.plain_files import opened_plain
from grader.reading.files import is_source
from grader.unusable import Unusable

MAX_ASSIGNMENTS = 50
"""Folders of one student that are taken for assignments."""

SUBMITTED = "submitted"
"""nbgrader's folder of what was handed in: only there do the folders of a student name assignments."""

TIMESTAMP = "timestamp.txt"
GRADESCOPE_METADATA = "submission_metadata.yml"
MAX_METADATA_BYTES = 64 << 20
FEW = 5
"""Files that a sentence names."""


@dataclass(frozen=True)
class Intake:
    """What came in: hand-ins by student and time, those for other assignments, and every file."""

    hand_ins: tuple[HandIn, ...]
    others: tuple[HandIn, ...]
    came: tuple[Came, ...]


def collect(path: Path, workspace: Path, *, assignment: str | None = None, unpack: Unpack = unpack_here) -> Intake:
    """Every hand-in below `path`, and every file there; archives are unpacked below `workspace`.

    `assignment`: of nbgrader's folders only this one. What goes wrong with one hand-in costs that one. Raises
    Unusable when there is nothing to grade, or when the archive of a class is damaged.
    """
    if not path.exists():
        raise Unusable(f"{path} does not exist; give the folder or the zip archive of the submissions")
    unpacking = Unpacking(workspace, unpack, assignments=assignment is not None)
    if path.is_file():
        found, came = _archive(path, unpacking)
    else:
        found, came = _alone(path, unpacking) or (
            list(_folder(_of_a_class(path), unpacking)),
            everything_below(path),
        )
    if not any(hand_in.taken or hand_in.failed for hand_in in found):
        raise Unusable(_nothing_recognised(path, found, came))
    whole = sorted(
        with_unread_named(_with_numbers_apart(_each_of_an_assignment(found, assignment)), came),
        key=lambda one: (one.student, one.assignment, ordered(one.submitted), one.place),
    )
    others = [one for one in whole if assignment is not None and one.assignment not in ("", assignment)]
    asked = [one for one in whole if assignment is None or one.assignment in ("", assignment)]
    if not asked:
        names = sorted({hand_in.assignment for hand_in in whole if hand_in.assignment})
        raise Unusable(f"{path} has no assignment {assignment!r}; it has {', '.join(names) or 'none'}")
    return Intake(tuple(asked), tuple(others), tuple(came))


def _each_of_an_assignment(found: Sequence[HandIn], assignment: str | None) -> list[HandIn]:
    """Who has no folder for the only assignment that is asked for handed in for it all the same, or handed in nothing. Of several nobody
    knows which is meant: no kernel is nothing for each of them, and kernels are graded by themselves, with a note."""
    known = sorted({one.assignment for one in found if one.assignment and assignment in (None, one.assignment)})
    note = f"in no assignment's folder, so graded by itself; if it is for one of them, move it into {' or '.join(known[:FEW])}"
    placed: list[HandIn] = []
    for one in found:
        if one.assignment or not known:
            placed.append(one)
        elif one.taken and len(known) > 1:
            placed.append(replace(one, notes=(*one.notes, note)))
        else:
            placed += [replace(one, assignment=name) for name in known]
    return placed


def _nothing_recognised(path: Path, found: Sequence[HandIn], came: Sequence[Came]) -> str:
    names = ", ".join(one.name for one in came[:FEW]) + (" and more" if len(came) > FEW else "")
    why = next((f" ({one.refused})" for one in found if one.refused), "")
    return (
        f"{path} holds no submissions: of its {len(came)} files{f' ({names})' if came else ''} none was recognised{why}; expected a folder "
        "for each student with .py or .ipynb files in it, or the bulk download of Canvas, Moodle or Gradescope"
    )


def _with_numbers_apart(hand_ins: Sequence[HandIn]) -> list[HandIn]:
    """Students whom a platform gave one name and different numbers are different students; a name's letters may be composed or not."""
    hand_ins = [replace(one, student=unicodedata.normalize("NFC", one.student)) for one in hand_ins]
    numbers: dict[str, set[str]] = {}
    for one in hand_ins:
        numbers.setdefault(one.student, set()).add(one.number)
    shared = {student for student, found in numbers.items() if len(found - {""}) > 1}
    return [
        replace(one, student=f"{one.student} ({one.number})", name=one.student)
        if one.student in shared and one.number
        else one
        for one in hand_ins
    ]


def _guarded(student: str, place: str, path: Path, take: Callable[[], Iterable[HandIn]]) -> list[HandIn]:
    """What one student handed in; any error there becomes that student's, and nobody else's."""
    try:
        return list(take())
    except Exception as error:  # file systems and archives raise what they like
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        advice = (
            "free some space and run the same command again" if _disk_full(error) else "grade it by itself to see why"
        )
        found = reason if isinstance(error, WorkFailed) else f"{type(error).__name__}: {reason}; {advice}"
        return [HandIn(student, "", place, path, failed=f"the hand-in could not be taken in: {found}", holds=(path,))]


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
    unpacking = replace(unpacking, assignments=unpacking.assignments or root.name == SUBMITTED)
    for child in within:
        if child.is_dir() and not child.is_symlink():
            student = student_of_folder(child.name)
            yield from _guarded(student, child.name, child, partial(_student, student, child, unpacking))


def _loose(file: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """A file that lies among the students' folders is named after its student."""
    hand_in = HandIn(file.stem, "", file.name, file, modified(file), holds=(file,))
    if is_archive(file):
        yield _unpacked(hand_in, [file], unpacking)
    elif is_source(file):
        yield replace(hand_in, taken=(file,))


def _student(student: str, folder: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """A folder named after a student is one hand-in, whatever is in it; in nbgrader's submitted/ its folders may be assignments."""
    name = named(folder.name)
    whole = HandIn(student, "", folder.name, folder, holds=(folder,))
    if name is not None and name.platform == "moodle":
        whole = replace(whole, platform="moodle", number=name.number, reply=name.reply)
    elif is_repository(folder):
        whole = replace(whole, platform="clone", submitted=committed(folder))
    try:
        within = children(folder)
    except PermissionError as error:
        yield replace(whole, refused=unreadable(folder, error))
        return
    folders = [child for child in within if child.is_dir() and not child.is_symlink()]
    if not unpacking.assignments or whole.platform or any(map(is_source, within)) or not folders:
        yield _one(whole, within, unpacking)
        return
    room = MAX_STUDENT_BYTES // min(len(folders), MAX_ASSIGNMENTS)
    for child in folders[:MAX_ASSIGNMENTS]:
        one = replace(whole, assignment=child.name, place=f"{folder.name}/{child.name}", path=child, holds=(child,))
        try:
            yield _one(_at_its_time(one), children(child), unpacking, room)
        except PermissionError as error:
            yield replace(one, refused=unreadable(child, error))


def _at_its_time(hand_in: HandIn) -> HandIn:
    """With the time that nbgrader wrote beside an assignment; anywhere else such a file is the student's own."""
    stamp = hand_in.path / TIMESTAMP
    hand_in = replace(hand_in, submitted=timestamp(stamp), read=(stamp,))
    if hand_in.submitted is None and os.path.lexists(stamp):
        note = f"{hand_in.place}/{TIMESTAMP} holds no time such as 2026-11-20 23:58:00 UTC, so when it was handed in is not known"
        return replace(hand_in, notes=(note,))
    return hand_in


def _one(hand_in: HandIn, within: list[Path], unpacking: Unpacking, room: int = MAX_STUDENT_BYTES) -> HandIn:
    """The hand-in that a folder holds: its sources, else those in its archives, else those in the folders that it wraps.

    room: the bytes to which its archives may be unpacked.
    """
    folder = hand_in.path
    if len(within) >= MAX_LISTED:
        hand_in = replace(hand_in, notes=(*hand_in.notes, f"{folder.name} holds {MAX_LISTED} entries or more"))
    own = any(map(is_source, within)) or is_repository(folder)
    archives = [] if own else [child for child in within if is_archive(child)]
    found = Sources(None) if archives else source_root(folder, unpacking)
    if found.root is None and (archives := archives or topmost_archives(folder)):
        return _unpacked(hand_in, archives, unpacking, room)
    if found.root is None:
        nothing = nothing_to_grade(folder.name, [child for child in within if child not in hand_in.read])
        found = replace(found, root=folder, notes=(*found.notes, nothing))
    return _taking(hand_in, found)


def _taking(hand_in: HandIn, found: Sources) -> HandIn:
    """The hand-in with what is graded of it."""
    return replace(
        hand_in, path=found.root or hand_in.path, taken=found.files, left=found.left, notes=found.notes + hand_in.notes
    )


def _unpacked(hand_in: HandIn, archives: list[Path], unpacking: Unpacking, room: int = MAX_STUDENT_BYTES) -> HandIn:
    """The hand-in that archives hold together."""
    folder, opened = unpacking.all(archives, f"{hand_in.student} {archives[0].stem}", room)
    inside = source_root(folder, unpacking)
    place = archives[0].name if len(archives) == 1 else hand_in.place
    refused = (
        ""
        if inside.root
        else "; ".join(opened.notes) or nothing_to_grade(place, children(folder) if len(archives) == 1 else ())
    )
    place = hand_in.place if hand_in.place.endswith(archives[0].name) else f"{hand_in.place}/{archives[0].name}"
    taken = opened.files if inside.root else ()
    path, notes = inside.root or archives[0], hand_in.notes + opened.notes + inside.notes
    return replace(hand_in, place=place, path=path, refused=refused, notes=notes, taken=taken, left=opened.left)


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
        for hand_in in _guarded(whose.student, place, parts[0][0], partial(_together, whose, place, parts, unpacking)):
            yield replace(hand_in, holds=tuple(file for file, _ in parts))


def _together(whose: Named, place: str, parts: list[tuple[Path, str]], unpacking: Unpacking) -> Iterator[HandIn]:
    """Files that lay beside those of others, copied under their own names into a folder of their own, with what archives hold.

    Platforms pack anew for each download, and some stamp files with that time: it says nothing of when they were handed in.
    """
    parts = [(file, name) for file, name in parts if not name.startswith(".")]
    archives = [file for file, name in parts if is_archive(Path(name)) and not file.is_symlink()]
    folder, opened = unpacking.all(archives, f"{whose.student} {place}")
    own = copied([(file, name) for file, name in parts if is_source(Path(name)) or file.is_symlink()], folder)
    inside = source_root(folder, unpacking)
    notes = own.notes + opened.notes
    refused = "" if inside.root else "; ".join(notes) or nothing_to_grade(place, [Path(name) for _, name in parts])
    yield HandIn(
        whose.student,
        "",
        place,
        inside.root or folder,
        None,
        refused,
        notes + inside.notes,
        whose.late,
        platform=whose.platform,
        number=whose.number,
        reply=whose.reply,
        taken=own.files + opened.files if inside.root else (),
        left=own.left + opened.left,
    )


def _gradescope(root: Path, unpacking: Unpacking) -> Iterator[HandIn]:
    """submission_metadata.yml names who submitted each folder submission_<number>, and when."""
    import yaml

    try:
        with opened_plain(root / GRADESCOPE_METADATA) as file:
            metadata: Any = yaml.safe_load(file.read(MAX_METADATA_BYTES).decode("utf-8"))
        entries = list(metadata.items())
    except (OSError, ValueError, yaml.YAMLError, AttributeError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unusable(f"{GRADESCOPE_METADATA} cannot be read ({reason}); download the export again") from None
    whose: dict[str, set[tuple[str, ...]]] = {}
    for _, entry in entries:
        for sid, *others in _submitters(entry):
            whose.setdefault(sid, set()).add(tuple(others))
    shared = {sid for sid, people in whose.items() if len(people) > 1}
    for name, entry in entries:
        folder = root / Path(str(name)).name
        yield from _guarded(str(name), str(name), folder, partial(_listed, str(name), entry, folder, unpacking, shared))


def _submitters(entry: Any) -> list[tuple[str, str, str]]:
    """Who submitted an entry of submission_metadata.yml: number, address and name of each, "" for what is not there."""
    people = entry.get(":submitters") if isinstance(entry, dict) else None
    known = [person for person in people if isinstance(person, dict)] if isinstance(people, list) else []
    return [tuple(str(person.get(key) or "") for key in (":sid", ":email", ":name")) for person in known]  # type: ignore[misc]


def _listed(name: str, entry: Any, folder: Path, unpacking: Unpacking, shared: set[str]) -> Iterator[HandIn]:
    """The hand-ins of one entry of submission_metadata.yml, one for each who submitted it. shared: numbers that several people have, which
    are nobody's then. Who has neither number nor address is told from a namesake by the entry: Gradescope lists each submission once."""
    known = entry if isinstance(entry, dict) else {}
    whole = HandIn("", "", name, folder, moment(known.get(":created_at")), platform="gradescope", holds=(folder,))
    whole = replace(whole, read=(folder.parent / GRADESCOPE_METADATA,))
    if not folder.is_dir():
        whole = replace(whole, refused=f"{name} is listed in {GRADESCOPE_METADATA}, but its folder is missing")
    else:
        whole = _one(whole, children(folder), unpacking)
        refused = "" if whole.taken else whole.refused or nothing_to_grade(name, children(folder))
        whole = replace(whole, place=name, refused=refused)
    for sid, email, full in _submitters(entry) or [("", "", "")]:
        own = "" if sid in shared else sid
        number = own or ("" if email else name)
        yield replace(whole, student=own or email or full or name, number=number, name=full, email=email)


# ---------------------------------------------------------------- the archive of a class


def _archive(path: Path, unpacking: Unpacking) -> tuple[list[HandIn], list[Came]]:
    """The download of a whole class, or one student's zip (sources at its root) given by itself; and every entry of it.

    An archive that lies among those of others is never read as a class: its owner could speak for the others.
    """
    top = unpacking.fresh(path.stem)
    try:
        refused = unpacking.unpack(path.resolve(), top, MAX_TOTAL_BYTES)
    except UnusableArchive as error:
        raise Unusable(str(error)) from None
    came = [*everything_below(top), *(Came(entry.name, None, entry.reason) for entry in refused)]
    folder = _unwrapped(top)
    if is_repository(folder) or _is_one_students(folder):
        whole = HandIn(
            path.stem, "", path.name, folder, modified(path), notes=notes_on(path.name, refused), holds=(top,)
        )
        return [_taking(whole, source_root(folder, unpacking))], came
    inside = list(_folder(folder, unpacking))
    lost = _lost(refused, folder.relative_to(top).parts)
    known = {hand_in.student for hand_in in inside}
    found = [
        replace(one, place=f"{path.name}/{one.place}", notes=one.notes + notes_on(path.name, lost.get(one.student, [])))
        for one in inside
    ]
    for student, entries in lost.items():
        if student not in known:
            sentence = "; ".join(notes_on(path.name, entries))
            found.append(HandIn(student, "", f"{path.name}/{entries[0].name}", path, refused=sentence))
    return found, came


def _lost(refused: Sequence[RefusedMember], wrappers: Sequence[str]) -> dict[str, list[RefusedMember]]:
    """By student, what could not be unpacked."""
    found: dict[str, list[RefusedMember]] = {}
    for entry in refused:
        parts = [part for part in entry.name.replace("\\", "/").split("/") if part not in ("", ".")]
        whose = owner(parts[len(wrappers) :] if parts[: len(wrappers)] == list(wrappers) else parts)
        if whose is not None:
            found.setdefault(whose, []).append(entry)
    return found


def _unwrapped(folder: Path) -> Path:
    """The folder itself, or what lies in it where folders only wrap each other. A student's own folder is no wrapper."""
    within = children(folder)
    while len(within) == 1 and within[0].is_dir() and not within[0].is_symlink():
        inner = children(within[0])
        if student_of_folder(within[0].name) != within[0].name:
            break
        if any(map(is_source, inner)) and not _is_download(within[0], inner):
            break
        folder, within = within[0], inner
    return folder


def _is_download(folder: Path, within: Sequence[Path]) -> bool:
    """Whether a platform put it together: Gradescope's list is there, or the sources in it are named as Canvas or Moodle does."""
    names = [child.name for child in within]
    sources = [child.name for child in within if is_source(child)]
    return GRADESCOPE_METADATA in names or (any(map(named, names)) and all(map(named, sources)))


def _of_a_class(path: Path) -> Path:
    """The folder given, or the download or submitted/ that lies in it alone: taken for one student's it would be the whole class's."""
    folder = _unwrapped(path)
    within = children(folder)
    of_class = folder.name == SUBMITTED or _is_download(folder, within) or are_of_several(filter(_is_folder, within))
    return folder if of_class else path


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _alone(path: Path, unpacking: Unpacking) -> tuple[list[HandIn], list[Came]] | None:
    """What the archive that lies alone in a folder holds, where a platform or nbgrader put a class together, or several in it wrote the
    same kernel; else it is one's."""
    within = children(path)
    if len(within) != 1 or not is_archive(within[0]) or not within[0].is_file() or within[0].is_symlink():
        return None
    if named(within[0].name) is not None:
        return None
    try:
        found, came = _archive(within[0], unpacking)
    except Unusable:
        return None
    several = len({one.student for one in found}) > 1
    whole = several and (
        all(one.platform or one.assignment for one in found) or are_of_several(one.path for one in found if one.taken)
    )
    return (found, came) if whole else None


def _is_one_students(folder: Path) -> bool:
    """Whether sources lie there whose names are those of no class download, beside at most one folder with sources."""
    within = children(folder)
    if any(named(child.name) for child in within) or not any(
        is_source(child) and not child.is_dir() for child in within
    ):
        return False
    return (
        sum(child.is_dir() and any(map(is_source, children(child))) for child in within if not child.is_symlink()) < 2
    )
