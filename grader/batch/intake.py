"""Who handed in what, and when? Turns a folder or a bulk download into a list of hand-ins.

Read are nbgrader's submitted/{student}/{assignment}/, a folder of folders, and the bulk downloads of Canvas, Moodle
and Gradescope, as a zip archive or unpacked.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.batch.archives import UnusableArchive, unpack

SOURCES = (".py", ".ipynb")
MAX_LISTED = 20_000
TIMESTAMP = "timestamp.txt"
GRADESCOPE_METADATA = "submission_metadata.yml"

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
    `late` is the learning platform's own word for it, where it gives one without a time.
    """

    student: str
    assignment: str
    place: str
    path: Path
    submitted: datetime | None = None
    refused: str = ""
    notes: tuple[str, ...] = ()
    late: bool = False

    @property
    def key(self) -> str:
        """Names the hand-in in one run."""
        return f"{self.student}/{self.assignment}/{self.place}"


def collect(path: Path, workspace: Path, *, assignment: str | None = None) -> list[HandIn]:
    """Every hand-in below `path`, by student and time; archives are unpacked below `workspace`.

    `assignment`: of nbgrader's folders only this one. Raises UnusableSubmissions when there is nothing to grade.
    """
    if not path.exists():
        raise UnusableSubmissions(f"{path} does not exist; give the folder or the zip archive of the submissions")
    found = list(_archive(path, path.name, workspace) if path.is_file() else _folder(path, workspace))
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


# ---------------------------------------------------------------- kinds of folders


def _folder(root: Path, workspace: Path) -> Iterator[HandIn]:
    children = _children(root)
    if (root / GRADESCOPE_METADATA).is_file():
        yield from _gradescope(root)
        return
    named = [child for child in children if child.is_file() or child.is_symlink()]
    if any(CANVAS.fullmatch(child.name) for child in named):
        yield from _canvas(named, workspace)
    elif any(MOODLE.fullmatch(child.name) for child in named):
        yield from _moodle_files(named, workspace)
    else:
        for child in named:
            if child.suffix.lower() == ".zip":
                yield _unpacked(child.stem, "", child, child.name, _modified(child), workspace)
            elif child.suffix in SOURCES:
                yield _single(child.stem, child, child.name)
    for child in children:
        if child.is_dir() and not child.is_symlink():
            yield from _student(child, workspace)


def _student(folder: Path, workspace: Path) -> Iterator[HandIn]:
    """A folder named after a student (plainly, or in Moodle's way): its files, or a folder for each assignment."""
    moodle = MOODLE.fullmatch(folder.name)
    student = moodle["student"] if moodle else folder.name
    try:
        children = _children(folder)
    except OSError as error:
        yield HandIn(student, "", folder.name, folder, refused=_unreadable(folder, error))
        return
    folders = [child for child in children if child.is_dir() and not child.is_symlink()]
    if any(child.suffix in SOURCES for child in children) or not folders:
        yield from _one(student, "", folder, folder.name, children, workspace)
        return
    for child in folders:
        place = f"{folder.name}/{child.name}"
        try:
            yield from _one(student, child.name, child, place, _children(child), workspace)
        except OSError as error:
            yield HandIn(student, child.name, place, child, refused=_unreadable(child, error))


def _one(
    student: str, assignment: str, folder: Path, place: str, children: list[Path], workspace: Path
) -> Iterator[HandIn]:
    """The hand-in that a folder holds; a zip in a folder without sources is the hand-in itself."""
    submitted = _timestamp(folder / TIMESTAMP)
    sources = [child for child in children if child.suffix in SOURCES]
    archives = [child for child in children if child.suffix.lower() == ".zip"]
    if sources or not archives:
        notes: tuple[str, ...] = ()
        if not sources:
            notes += (f"{folder.name} holds no .py or .ipynb file; ask for the notebook itself",)
        if len(children) >= MAX_LISTED:
            notes += (f"{folder.name} holds {MAX_LISTED} entries or more",)
        if submitted is None and (folder / TIMESTAMP).exists():
            notes += (f"{place}/{TIMESTAMP} holds no time such as 2026-11-20 23:58:00 UTC, so it counts as in time",)
        yield HandIn(student, assignment, place, folder, submitted, notes=notes)
        return
    for archive in archives:
        yield _unpacked(student, assignment, archive, f"{place}/{archive.name}", submitted, workspace)


def _canvas(files: Iterable[Path], workspace: Path) -> Iterator[HandIn]:
    """Canvas puts all files of a class side by side; those of one submission share its number."""
    groups: dict[tuple[str, str, bool], list[tuple[Path, str]]] = {}
    for file in files:
        match = CANVAS.fullmatch(file.name)
        if match:
            student = f"{match['student']}_{match['user']}"
            key = (student, match["submission"], bool(match["late"]))
            groups.setdefault(key, []).append((file, match["file"]))
    for (student, submission, late), parts in groups.items():
        yield _gathered(student, f"canvas submission {submission}", parts, workspace, late)


def _moodle_files(files: Iterable[Path], workspace: Path) -> Iterator[HandIn]:
    groups: dict[tuple[str, str], list[tuple[Path, str]]] = {}
    for file in files:
        match = MOODLE.fullmatch(file.name)
        if match:
            groups.setdefault((match["student"], match["participant"]), []).append((file, match["file"] or file.name))
    for (student, participant), parts in groups.items():
        yield _gathered(student, f"moodle participant {participant}", parts, workspace, False)


def _gathered(student: str, place: str, parts: list[tuple[Path, str]], workspace: Path, late: bool) -> HandIn:
    """Files that lay beside those of others, copied under their own names into a folder of their own."""
    folder = _fresh(workspace, f"{student} {place}")
    notes, archives = [], []
    for file, name in parts:
        if file.is_symlink():
            notes.append(f"{file.name} is a link and was left out")
        elif file.suffix.lower() == ".zip":
            archives.append(file)
        elif file.suffix in SOURCES:
            try:
                shutil.copyfile(file, folder / Path(name).name)
            except OSError as error:
                notes.append(_unreadable(file, error))
    for archive in archives:
        try:
            notes += [f"{archive.name}: {entry.name} {entry.reason}" for entry in unpack(archive, folder)]
        except UnusableArchive as error:
            notes.append(str(error))
    root = _source_root(folder)
    refused = "" if root else "; ".join(notes) or f"{place} holds no .py or .ipynb file; ask for the notebook itself"
    return HandIn(student, "", place, root or folder, _newest(parts), refused, tuple(notes), late)


def _gradescope(root: Path) -> Iterator[HandIn]:
    """submission_metadata.yml names who submitted each folder submission_<number>, and when."""
    import yaml

    try:
        metadata: Any = yaml.safe_load((root / GRADESCOPE_METADATA).read_text(encoding="utf-8"))
        entries = list(metadata.items())
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UnusableSubmissions(
            f"{GRADESCOPE_METADATA} cannot be read ({reason}); download the export again"
        ) from None
    for name, entry in entries:
        known = entry if isinstance(entry, dict) else {}
        submitters = [person for person in known.get(":submitters") or [] if isinstance(person, dict)] or [{}]
        submitted = _moment(known.get(":created_at"))
        folder = root / Path(str(name)).name
        for person in submitters:
            label = person.get(":sid") or person.get(":email") or person.get(":name") or name
            refused = "" if folder.is_dir() else f"{name} is listed in {GRADESCOPE_METADATA}, but its folder is missing"
            source = _source_root(folder) if not refused else None
            if not refused and source is None:
                refused = f"{name} holds no .py or .ipynb file; ask for the notebook itself"
            yield HandIn(str(label), "", str(name), source or folder, submitted, refused)


# ---------------------------------------------------------------- pieces


def _archive(path: Path, place: str, workspace: Path) -> Iterator[HandIn]:
    """The download of a whole class, or one student's zip (sources at its root) given by itself.

    An archive that lies among those of others is never read as a class: its owner could speak for the others.
    """
    folder = _fresh(workspace, path.stem)
    try:
        refused = unpack(path, folder)
    except UnusableArchive as error:
        yield HandIn(path.stem, "", place, path, refused=str(error))
        return
    notes = tuple(f"{place}: {entry.name} {entry.reason}" for entry in refused)
    children = _children(folder)
    while len(children) == 1 and children[0].is_dir():
        inner = children[0]
        if MOODLE.fullmatch(inner.name) or any(child.suffix in SOURCES for child in _children(inner)):
            break
        folder, children = inner, _children(inner)
    plain = [child for child in children if child.suffix in SOURCES]
    if plain and not any(CANVAS.fullmatch(child.name) or MOODLE.fullmatch(child.name) for child in plain):
        yield HandIn(path.stem, "", place, folder, _modified(path), notes=notes)
        return
    inside = list(_folder(folder, workspace))
    if not inside:
        sentence = "; ".join(notes) or f"{place} holds no .py or .ipynb file; ask for the notebook itself"
        yield HandIn(path.stem, "", place, path, refused=sentence)
    for hand_in in inside:
        yield HandIn(
            hand_in.student, hand_in.assignment, f"{place}/{hand_in.place}", hand_in.path, hand_in.submitted,
            hand_in.refused, hand_in.notes + tuple(note for note in notes if hand_in.student in note), hand_in.late,
        )  # fmt: skip
    for entry in refused:
        owner = _owner(entry.name)
        if owner and not any(hand_in.student == owner for hand_in in inside):
            yield HandIn(owner, "", f"{place}/{entry.name}", path, refused=f"{entry.name} {entry.reason}")


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
    student: str, assignment: str, archive: Path, place: str, submitted: datetime | None, workspace: Path
) -> HandIn:
    folder = _fresh(workspace, f"{student} {archive.stem}")
    try:
        refused = unpack(archive, folder)
    except UnusableArchive as error:
        return HandIn(student, assignment, place, archive, submitted, str(error))
    notes = tuple(f"{archive.name}: {entry.name} {entry.reason}" for entry in refused)
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


def _single(student: str, file: Path, place: str) -> HandIn:
    return HandIn(student, "", place, file, _modified(file))


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


def _fresh(workspace: Path, name: str) -> Path:
    safe = re.sub(r"[^\w.-]+", "_", name)[:80]
    for number in range(1_000_000):
        folder = workspace / f"{safe}.{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("a million folders of one name")


def _timestamp(path: Path) -> datetime | None:
    """nbgrader's timestamp.txt, such as "2026-11-20 23:58:00.123456 UTC"; None without a readable one."""
    try:
        return _moment(path.read_text(encoding="utf-8")[:100])
    except (OSError, UnicodeDecodeError):
        return None


def _moment(value: Any) -> datetime | None:
    """A time from text or YAML; without a zone it is UTC."""
    if isinstance(value, str):
        text = re.sub(r"\s*(UTC|GMT|Z)$", "+00:00", value.strip())
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _modified(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        return None


def _newest(parts: list[tuple[Path, str]]) -> datetime | None:
    times = [time for file, _ in parts if (time := _modified(file))]
    return max(times, default=None)


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path.name} cannot be read ({error.strerror}); check its permissions"
