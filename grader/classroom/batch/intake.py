"""Who handed in what, and when? Turns a folder or a bulk download into a list of hand-ins, and of every file that came.

Read are nbgrader's submitted/{student}/{assignment}/, a folder of folders or of cloned repositories, and the bulk downloads of Canvas,
Moodle and Gradescope, as a zip archive or unpacked.
"""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grader.classroom.batch.accounts import Came, everything_below, first_of, with_unread_named
from grader.classroom.batch.archives import (
    MAX_STUDENT_BYTES,
    MAX_TOTAL_BYTES,
    RefusedMember,
    notes_on,
    place_of,
    unpack,
)
from grader.classroom.batch.begun import is_work, kernels_in
from grader.classroom.batch.class_folder import (
    GRADESCOPE_METADATA,
    SUBMITTED,
    TIMESTAMP,
    Assignments,
    are_beside_empty,
    assignments_in,
    class_in,
    has_work,
    is_named_after_work,
    is_one_students,
    is_stamped,
    platform_of,
    sections_in,
    telling,
    unwrapped,
    why_of_others,
)
from grader.classroom.batch.folders import (
    MAX_LISTED,
    Part,
    Sources,
    Unpack,
    Unpacking,
    archives_in,
    are_of_several,
    children,
    gathered,
    innermost,
    is_archive,
    is_folder,
    is_repository,
    may_be_work,
    nothing_to_grade,
    sources_by_level,
    topmost,
    unreadable,
    why_unread,
    without_work,
)
from grader.classroom.batch.hand_in import HandIn, Left
from grader.classroom.batch.marks import ordered
from grader.classroom.batch.platforms import Named, named, why_unread_name
from grader.classroom.batch.times import committed, modified, moment, timestamp
from grader.classroom.batch.workers import WorkFailed
from grader.plain_files import UnreadableFile, in_brief, opened_plain
from grader.reading.files import is_source
from grader.unusable import Unusable

MAX_ASSIGNMENTS = 50
"""Folders of one student that are taken for assignments."""

FILED = "_assignsubmission_file"
"""In Moodle's names: what a student handed in as files, and not with another plugin such as onlinetext."""
MAX_METADATA_BYTES = 64 << 20
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FEW = 5
"""Files that a sentence names."""
TWICE_SPELLED = "two folders or files have this name, one with accents as characters of their own; they are taken to be one student's"

NAMED_OTHERWISE = (
    "{} is a folder among what {} named, and its name does not say whose it is; rename it as the others are"
)
SECTIONS = "{} holds folders of several students: {}; grade each of these folders by itself, or put what is in them side by side"
NO_COMMIT = "{}/.git has no commit that can be read, so when it was handed in is not known; clone it anew, or give handed_in in a roster"


@dataclass(frozen=True)
class Intake:
    """What came in: hand-ins by student and time, those for other assignments, and every file."""

    hand_ins: tuple[HandIn, ...]
    others: tuple[HandIn, ...]
    came: tuple[Came, ...]


def collect(path: Path, workspace: Path, *, assignment: str | None = None, unpack: Unpack = unpack) -> Intake:
    """Every hand-in below `path`, and every file there; archives are unpacked below `workspace`.

    `assignment`: of nbgrader's folders only this one. What goes wrong with one hand-in costs that one. Raises
    Unusable when there is nothing to grade, or when the archive of a class is damaged.
    """
    if not path.exists():
        raise Unusable(f"{path} does not exist; give the folder or the zip archive of the submissions")
    unpacking = Unpacking(workspace, unpack)
    found, came = (_archive if path.is_file() else _in_folder)(path, unpacking, assignment)
    if not any(hand_in.taken or (hand_in.failed and os.path.lexists(hand_in.path)) for hand_in in found):
        raise Unusable(_nothing_recognised(path, found, came))
    whole = sorted(
        with_unread_named(_apart(_each_of_an_assignment(found, assignment)), came),
        key=lambda one: (one.student, one.assignment, ordered(one.submitted), one.place),
    )
    others = [one for one in whole if assignment is not None and one.assignment not in ("", assignment)]
    chosen = [one for one in whole if assignment is None or one.assignment in ("", assignment)]
    if not chosen:
        names = sorted({hand_in.assignment for hand_in in whole if hand_in.assignment})
        raise Unusable(f"{path} has no assignment {assignment!r}; it has {', '.join(names) or 'none'}")
    return Intake(tuple(chosen), tuple(others), tuple(came))


def _in_folder(path: Path, unpacking: Unpacking, asked: str | None) -> tuple[list[HandIn], list[Came]]:
    """The hand-ins of a folder, and every file there."""
    if alone := _alone(path, unpacking, asked):
        return alone
    folder = class_in(path)
    found = _folder(folder, unpacking, asked)
    if folder != path and (note := _perhaps_of_one(folder, found)):
        found = [one.noting(note) for one in found]
    if len(found) == 1 and not found[0].platform and is_folder(found[0].holds[0]):
        found = [_perhaps_of_several(found[0], innermost(found[0].holds[0]))]
    return found, everything_below(path)


def of_one_student(folder: Path, workspace: Path) -> HandIn:
    """What one student handed in for an assignment of nbgrader's, as `collect` takes it from the folder of the class."""
    whole = HandIn(folder.parent.name, folder.name, folder.name, folder, holds=(folder,))
    (found,) = _guarded(whole, partial(_chosen, whole, Unpacking(workspace, unpack), [folder]))
    return found


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
            placed.append(one.noting(note))
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


def _apart(hand_ins: Sequence[HandIn]) -> list[HandIn]:
    """The hand-ins by their students, a name's letters composed: whom a platform gave one name and different numbers are different ones.

    A platform's number that stands beside several names is nobody's: one of them was read wrongly, or was changed, and whose it is cannot
    be told. Then the name is all that is known.
    """
    composed = [replace(one, student=_composed(one.student)) for one in hand_ins]
    names, spelled, numbers = (defaultdict[Any, set[str]](set) for _ in range(3))
    for one, before in zip(composed, hand_ins, strict=True):
        names[one.platform, one.number].add(one.student)
        spelled[one.student].add(before.student)
    found = []
    for one in composed:
        beside = sorted(names[one.platform, one.number])
        notes = (TWICE_SPELLED,) if len(spelled[one.student]) > 1 else ()
        if one.platform in ("canvas", "moodle") and one.number and len(beside) > 1:
            known = f"{one.platform.capitalize()}'s number {one.number} stands beside several names ({', '.join(beside[:FEW])})"
            name, place = one.name or one.student.removesuffix(f"_{one.number}"), f"{one.place}, {one.student}"
            notes = (f"{known}, so it is taken for nobody's", *notes)
            one = replace(one, number="", reply="", place=place, name=name)
        found.append(replace(one, notes=one.notes + notes))
        numbers[one.student] |= {one.number} - {""}
    return [
        replace(one, student=f"{one.student} ({one.number})", name=one.student)
        if one.number and len(numbers[one.student]) > 1
        else one
        for one in found
    ]


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _guarded(whole: HandIn, take: Callable[[], list[HandIn]]) -> list[HandIn]:
    """What one student handed in; any error there becomes that student's, and nobody else's."""
    try:
        if is_folder(whole.path):
            os.listdir(whole.path)
    except OSError as error:
        return [replace(whole, refused=unreadable(whole.path, error))]
    try:
        return take()
    except Exception as error:  # file systems and archives raise what they like
        full = isinstance(error, OSError) and (not error.errno or error.errno in DISK_FULL)
        advice = "free some space and run the same command again" if full else "grade it by itself to see why"
        found = (
            in_brief(error) if isinstance(error, WorkFailed) else f"{type(error).__name__}: {in_brief(error)}; {advice}"
        )
        return [replace(whole, failed=f"the hand-in could not be taken in: {found}")]


# ---------------------------------------------------------------- whose is what lies in the folder of a class


def _folder(root: Path, unpacking: Unpacking, asked: str | None, called: str = "") -> list[HandIn]:
    """The hand-ins of a class: as Gradescope lists them, or by the names of files and folders. asked: the assignment that is to be graded.
    called: the folder's name, where it has another here."""
    if (root / GRADESCOPE_METADATA).is_file():
        return _gradescope(root, unpacking)
    assignments = assignments_in(root, asked, submitted=SUBMITTED in (root.name, called))
    within = children(root)
    platform = platform_of(within)
    if not platform and (sections := sections_in(within)):
        raise Unusable(SECTIONS.format(called or root.name, sections))
    of_platform: dict[tuple[str, str], list[tuple[Named, Path]]] = {}
    found: list[HandIn] = []
    for path in within:  # what one student called a file may be a name of another platform's
        if (is_folder(path) or platform) and (name := named(path.name, platform or "moodle")):
            student = _composed(name.student), name.number
            of_platform.setdefault(student, []).append((name, path))
        elif is_folder(path):
            notes = (
                (NAMED_OTHERWISE.format(path.name, platform.capitalize()),) if platform else why_unread_name(path.name)
            )
            whole = HandIn(path.name, "", path.name, path, notes=notes, holds=(path,))
            found += _guarded(whole, partial(_student, whole, assignments, unpacking))
    plain = [] if platform else [path for path in within if not is_folder(path)]
    for whole, own in [*map(_of_platform, of_platform.values()), *_by_stem(plain)]:
        folders = list(filter(is_folder, whole.holds))
        found += _guarded(whole, partial(_chosen, whole, unpacking, folders, own))
    return found


def _by_stem(files: Sequence[Path]) -> Iterator[tuple[HandIn, list[Part]]]:
    """Each student's files that lie side by side with those of others, and their own names for them: without a platform a file is named
    after its student."""
    by_stem: dict[str, list[Path]] = {}
    for file in files:
        if is_source(file) or is_archive(file):
            by_stem.setdefault(file.stem, []).append(file)
    for own in by_stem.values():
        parts = [own]  # of one hand-in, unless two of them have the same kernel, or nobody knows what they have
        if any(map(is_archive, own)) or sum(len(kernels_in([file])) for file in own) > len(kernels_in(own)):
            parts = [[file] for file in own]
        for part in parts:
            at = max((time for file in part if (time := modified(file))), default=None)
            notes = why_unread_name(part[0].name)
            whole = HandIn(part[0].stem, "", part[0].name, part[0], at, notes=notes, holds=tuple(part), by_disk=True)
            yield whole, [(file, file.name) for file in part]


def _of_platform(group: Sequence[tuple[Named, Path]]) -> tuple[HandIn, list[Part]]:
    """What a platform says that one student handed in, files and folders, and the student's own names for the files. Of two with one name
    the later counts; what was typed into Moodle is one hand-in with the files."""
    group = sorted(group, key=lambda one: (-one[0].attachment, FILED not in one[1].name))
    last, files = group[0][0], [(file, found.file) for found, file in group if not is_folder(file)]
    if last.platform == "canvas":  # what is handed in again it calls w8a8-1.py where there was a w8a8.py
        plain = [re.sub(r"-\d+(?=\.\w+$)", "", name) for _, name in files]
        again = Counter(plain)
        files = [(file, own if again[own] > 1 else name) for own, (file, name) in zip(plain, files, strict=True)]
    notes = tuple(
        f"{file.name} may also be Canvas user {found.attachment}'s, if the name of the student or group ends with _{found.number}"
        for found, file in group
        if last.platform == "canvas" and re.match(r"\d+_.", found.file)
    )
    whole = HandIn(
        last.student,
        "",
        group[0][1].name if is_folder(group[0][1]) else last.submission,
        group[0][1],
        notes=notes[:FEW],
        late=any(found.late for found, _ in group),
        platform=last.platform,
        number=last.number,
        holds=tuple(file for _, file in group),
        reply=last.reply,
    )
    return whole, [(file, name) for file, name in files if not name.startswith(".")]


def _student(whole: HandIn, assignments: Assignments, unpacking: Unpacking) -> list[HandIn]:
    """A folder named after a student is one hand-in, whatever is in it, or one for each of its folders that is an assignment."""
    of_git = os.path.lexists(whole.path / ".git")
    if of_git or is_repository(whole.path):
        whole = replace(whole, platform="clone", submitted=committed(whole.path) if of_git else None)
        if of_git and whole.submitted is None:
            whole = whole.noting(NO_COMMIT.format(whole.place))
    within = children(whole.path)
    folders = list(filter(is_folder, within))
    stamped = assignments.stamped and any(map(is_stamped, folders))  # by nbgrader, so that sources beside it are none
    chosen = [folder for folder in folders if folder.name in assignments.names]
    if whole.platform or not chosen or (any(map(is_source, within)) and not stamped):
        return _chosen(whole, unpacking, whole.holds)
    unpacking = replace(unpacking, room=MAX_STUDENT_BYTES // min(len(chosen), MAX_ASSIGNMENTS))
    found: list[HandIn] = []
    for folder in chosen[:MAX_ASSIGNMENTS]:
        loose = [child for child in within if child not in chosen] if folder is chosen[0] else []
        one = replace(
            whole, assignment=folder.name, place=f"{whole.place}/{folder.name}", path=folder, holds=(folder, *loose)
        )
        one = _at_its_time(one) if assignments.stamped else replace(one, submitted=None)
        found += _guarded(one, partial(_chosen, one, unpacking, [folder]))
    return found


def _at_its_time(hand_in: HandIn) -> HandIn:
    """With the time that nbgrader wrote beside an assignment; anywhere else such a file is the student's own."""
    stamp = hand_in.path / TIMESTAMP
    hand_in = replace(hand_in, submitted=timestamp(stamp), read=(stamp,))
    if hand_in.submitted is None and os.path.lexists(stamp):
        note = f"{hand_in.place}/{TIMESTAMP} holds no time such as 2026-11-20 23:58:00 UTC, so when it was handed in is not known"
        return hand_in.noting(note)
    return hand_in


def _gradescope(root: Path, unpacking: Unpacking) -> list[HandIn]:
    """submission_metadata.yml names who submitted each folder submission_<number>, and when.

    A number that several people have is nobody's. Who has neither number nor address is told from a namesake by the entry: Gradescope
    lists each submission once.
    """
    import yaml

    metadata = root / GRADESCOPE_METADATA
    try:
        with opened_plain(metadata) as file:
            known: Any = yaml.safe_load(file.read(MAX_METADATA_BYTES).decode("utf-8"))
        entries = [(str(name), entry if isinstance(entry, dict) else {}) for name, entry in known.items()]
    except (OSError, ValueError, yaml.YAMLError, AttributeError, RecursionError) as error:
        raise Unusable(f"{GRADESCOPE_METADATA} cannot be read ({in_brief(error)}); download the export again") from None
    people = {person for _, entry in entries for person in _submitters(entry)}
    sharing = Counter(sid for sid, _, _ in people)
    addresses = {address for _, address, _ in people}
    found: list[HandIn] = []
    for name, entry in entries:
        folder, at = root / Path(name).name, moment(entry.get(":created_at"))
        whole = HandIn(name, "", name, folder, at, platform="gradescope", holds=(folder,), read=(metadata,))
        for one in _guarded(whole, partial(_listed, whole, unpacking)):
            for sid, email, full in _submitters(entry) or [("", "", "")]:
                own = "" if sharing[sid] > 1 or sid in addresses - {email} else sid
                number = own or ("" if email else name)
                found.append(replace(one, student=own or email or full or name, number=number, name=full, email=email))
    return found


def _submitters(entry: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Who submitted an entry of submission_metadata.yml: number, address and name of each, "" for what is not there."""
    people = entry.get(":submitters")
    known = [person for person in people if isinstance(person, dict)] if isinstance(people, list) else []
    return [tuple(str(person.get(key) or "") for key in (":sid", ":email", ":name")) for person in known]  # type: ignore[misc]


def _listed(whole: HandIn, unpacking: Unpacking) -> list[HandIn]:
    """An entry of submission_metadata.yml; what has nothing to grade is refused."""
    if not whole.path.is_dir():
        why = f"{whole.place} is listed in {GRADESCOPE_METADATA}, but its folder is missing; download the export again"
        return [replace(whole, failed=why)]
    (found,) = _chosen(whole, unpacking, whole.holds)
    refused = "" if found.taken else found.refused or nothing_to_grade(whole.place, children(whole.path))
    return [replace(found, place=whole.place, refused=refused)]


# ---------------------------------------------------------------- what is graded of it


def _chosen(hand_in: HandIn, unpacking: Unpacking, folders: Sequence[Path], parts: Sequence[Part] = ()) -> list[HandIn]:
    """The hand-in that folders are, or files that lie among others': its topmost sources with work in them, else what is in its archives,
    else its topmost sources.

    Platforms pack anew for each download, and some stamp files with that time: it says nothing of when they were handed in.
    """
    if refused := next(filter(None, map(why_of_others, folders)), ""):
        return [replace(hand_in, refused=refused)]
    if full := [folder.name for folder in folders if len(children(folder)) >= MAX_LISTED]:
        hand_in = hand_in.noting(f"{full[0]} holds {MAX_LISTED} entries or more")
    archives = archives_in(folders, parts)
    levels, clones = sources_by_level(folders, parts)
    name, opened, chosen = f"{hand_in.student} {hand_in.place}", Sources(), topmost(levels, clones)
    if archives:
        opened = unpacking.all(archives, name, ordered=bool(hand_in.platform))
        assert opened.root is not None
        refused = why_of_others(opened.root)
        inside, more = ([], []) if refused else sources_by_level([opened.root])
        whole = topmost([*levels, *inside], [*clones, *more])
        begun = any(is_work(file) for file, _ in chosen)
        if folders and begun and not any(opened.archive_of(file) for file, _ in whole):
            opened = opened.closed()  # archives that bring nothing to the work beside them are told as not read
        elif refused:
            return [replace(hand_in, refused=refused)]
        else:
            chosen = whole
            hand_in = hand_in if parts or begun else replace(hand_in, place=f"{hand_in.place}/{archives[0].name}")
    found = gathered(chosen, opened, unpacking, name, copy=bool(parts))
    if found.root is None:
        return [_without_sources(hand_in, found, [Path(own) for _, own in parts] or archives, whole=bool(folders))]
    return [_with_sources(hand_in, found, [file for file, _ in levels[0]])]


def _without_sources(hand_in: HandIn, found: Sources, there: Sequence[Path], *, whole: bool) -> HandIn:
    """Where nothing can be graded it is refused; in a whole folder without archives nothing is begun, and what is there is told."""
    place = hand_in.place
    if len(found.unpacked) == 1:
        ((archive, at),) = found.unpacked.items()
        place, there = archive.name, children(at)
    elif whole and not there:
        place, there = hand_in.path.name, [one for one in children(hand_in.path) if one not in hand_in.read]
        if not found.notes:
            return hand_in.noting(nothing_to_grade(place, there))
    return replace(hand_in, refused="; ".join(found.notes) or nothing_to_grade(place, there), left=found.left)


def _with_sources(hand_in: HandIn, found: Sources, top: Sequence[Path]) -> HandIn:
    """What is graded and what is not, of the files as they came. top: the sources that do not lie deeper, or in an archive."""
    archives = {name: found.archive_of(file) for name, file in found.files.items()}
    sources = {name: archives[name] or file for name, file in found.files.items()}
    unused = [archive for archive in found.unpacked if archive not in archives.values()]
    left = {**found.left, **{one: Left(f"{one.name} was opened, and nothing in it is graded") for one in unused}}
    top = [one for one in top if not one.is_symlink()] if all(archives.values()) else []
    beside = {one: f"{one.name} holds no work; what is in an archive is graded" for one in top}
    messages = [why for one, why in beside.items() if not without_work(one)]
    left |= {one: Left(why) for one, why in beside.items()}
    hand_in = replace(hand_in, path=found.root or hand_in.path, sources=sources, left=left)
    return hand_in.noting(*found.notes, *messages[:FEW], *_unread_in(found))


def _unread_in(found: Sources) -> list[str]:
    """What may be work in a hand-in's archives and is not graded, a sentence each; of a repository nothing is left over."""
    files = found.files.values()
    if any(is_repository(place) for file in files if found.archive_of(file) for place in file.parents):
        return []
    reported = {*files, *found.left}
    left = [
        f"{archive.name}/{one.name} was not read: {why_unread(one.path)}"
        for archive, at in found.unpacked.items()
        for one in everything_below(at)
        if one.path
        and one.path not in reported
        and not one.systems
        and may_be_work(one.path)
        and not without_work(one.path)
    ]
    return first_of(left, FEW)


# ---------------------------------------------------------------- the archive of a class


class DamagedArchive(Unusable):
    """An archive with entries whose bytes are not those that were packed. of_class: whether a platform named one of them."""

    def __init__(self, archive: Path, entries: Sequence[RefusedMember]) -> None:
        more = f", and so are {len(entries) - 1} more" if len(entries) > 1 else ""
        super().__init__(
            f"{archive.name} did not come whole: {entries[0].name} {entries[0].reason}{more}; download it again"
        )
        self.of_class = any(named(part) for one in entries for part in Path(one.name).parts)


def _archive(path: Path, unpacking: Unpacking, asked: str | None) -> tuple[list[HandIn], list[Came]]:
    """The download of a whole class, or one student's zip (sources at its root) given by itself; and every entry of it.

    An archive that lies among those of others is never read as a class: its owner could speak for the others. Raises Unusable where it
    did not come whole: whose marks are in what is lost is not for the grader to guess.
    """
    top = unpacking.fresh(path.stem)
    try:
        refused = unpacking.unpack(path.resolve(), top, MAX_TOTAL_BYTES)
    except UnreadableFile as error:
        raise Unusable(str(error)) from None
    if damaged := [one for one in refused if one.damaged]:
        raise DamagedArchive(path, damaged)
    lost = [(one, place_of(one.name, top)) for one in refused]
    came = everything_below(top)
    came += [Came(one.name, place if place and not os.path.lexists(place) else None, one.reason) for one, place in lost]
    folder = unwrapped(top)
    if is_repository(folder) or is_one_students(folder):
        whole = HandIn(path.stem, "", path.name, folder, modified(path), holds=(top,), by_disk=True)
        (whole,) = _chosen(whole.noting(*notes_on(path.name, refused)), unpacking, [folder])
        return [_perhaps_of_several(whole, folder)], came
    found = _folder(folder, unpacking, asked, path.stem if folder == top else "")
    below = [(one, place) for one, place in lost if place and folder in place.parents]
    found = [replace(one, place=f"{path.name}/{one.place}") for one in _with_lost(path, folder, found, below)]
    if note := _perhaps_of_one(path, found):
        found = [one.noting(note) for one in found]
    return found, came


def _with_lost(
    archive: Path, folder: Path, found: Sequence[HandIn], lost: Sequence[tuple[RefusedMember, Path]]
) -> list[HandIn]:
    """The hand-ins of a class's archive, each with what could not be unpacked of it; those too of which that is all."""
    whole, platform = list(found), platform_of(children(folder))
    of_place = {path: number for number, one in enumerate(whole) for path in one.holds}
    of_student = {(_composed(one.student), one.number): number for number, one in enumerate(whole)}
    entries: dict[int, list[RefusedMember]] = defaultdict(list)
    for entry, place in lost:
        first = folder / place.relative_to(folder).parts[0]
        name = named(first.name, platform)
        who = (_composed(name.student), name.number) if name else (first.stem if first == place else first.name, "")
        number = next((of_place[one] for one in (place, *place.parents) if one in of_place), of_student.get(who))
        if number is None:
            one = _of_platform([(name, first)])[0] if name else HandIn(who[0], "", first.name, first)
            number = of_student[who] = len(whole)
            whole.append(one)
        entries[number].append(entry)
        whole[number] = replace(whole[number], holds=tuple(dict.fromkeys((*whole[number].holds, place))))
    for number, some in entries.items():
        one, notes = whole[number], notes_on(archive.name, some)
        whole[number] = replace(one, refused="; ".join(notes)) if number >= len(found) else one.noting(*notes)
    return whole


def _perhaps_of_one(path: Path, found: Sequence[HandIn]) -> str:
    """Of folders and files in a zip that neither a platform named nor hold one kernel twice: who is to be asked."""
    begun = [
        one.path for one in found if one.path.is_dir() and any(map(is_work, filter(is_source, children(one.path))))
    ]
    if len(begun) < 2 or any(one.platform or one.assignment for one in found) or are_of_several(begun):
        return ""
    return (
        f"{path.name} is taken for a class of {len(found)}; if it is one student's, put all of it into a folder of that name, and begin "
        "the names in there with those of the labs"
    )


def _perhaps_of_several(hand_in: HandIn, folder: Path) -> HandIn:
    """With a note on files, archives and folders side by side that all have work and whose names say neither whose they are nor for which
    lab: who is to be asked."""
    found = [child for child in children(folder) if has_work(child)]
    if len(found) < 2 or any(map(is_named_after_work, found)):
        return hand_in
    names = " and ".join(child.name for child in found[:FEW])
    return hand_in.noting(
        f"{names} are taken to be one student's; if they are several students', give a folder with one folder for each"
    )


def _alone(path: Path, unpacking: Unpacking, asked: str | None) -> tuple[list[HandIn], list[Came]] | None:
    """What the archive that lies alone in a folder holds, where a platform or nbgrader put a class together, or several in it wrote the
    same kernel; else it is one's."""
    within = telling(path)
    alone = within[0] if len(within) == 1 and is_archive(within[0]) else None
    if alone is None or not alone.is_file() or alone.is_symlink() or named(alone.name):
        return None
    try:
        found, came = _archive(alone, unpacking, asked)
    except DamagedArchive as problem:
        if problem.of_class:
            raise
        return None
    except Unusable:
        return None
    if are_beside_empty(within) and any(one.platform or one.assignment for one in found):
        return None  # these names may be those of the one student who handed in something
    beside = [one for one in everything_below(path) if one.path != alone]
    return (found, [*came, *beside]) if _put_together(found, came) else None


def _put_together(found: Sequence[HandIn], came: Sequence[Came]) -> bool:
    """Whether a platform or nbgrader made an archive: it names each hand-in, and where there is but one also all sources; or whether
    several in it wrote the same kernel."""
    several = len({one.student for one in found}) > 1
    sources = [one.name for one in came if one.path and is_source(one.path)]
    by_name = several or all(named(name) or "/" in name for name in sources)
    whole = bool(found) and by_name and all(one.platform or one.assignment for one in found)
    return whole or (several and are_of_several(one.path for one in found if one.taken))
