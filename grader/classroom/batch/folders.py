"""Which of a student's files are graded? The topmost .py and .ipynb files among which there is work, in one folder.

Students wrap their work in folders, put each lab into one of its own, or hand in several archives: all of it is one hand-in. So is a
clone of the repository that they were given, in which only the files that they were to change are theirs.
"""

from __future__ import annotations

import filecmp
import itertools
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.classroom.batch.archives import (
    MAX_FILE_BYTES,
    MAX_STUDENT_BYTES,
    RefusedMember,
    UnusableArchive,
    newest_of,
    notes_on,
    unpack,
)
from grader.classroom.batch.begun import begun_in, is_work, kernels_in
from grader.labs import all_labs
from grader.plain_files import UnreadableFile, opened_plain
from grader.reading.files import is_source

MAX_LISTED = 20_000
DEEPEST = 4
"""Folders within folders that are looked through for sources."""
MAX_FOLDERS = 50
MAX_NAME_BYTES = 255
FEW = 3
"""Names that a sentence lists."""

ROOT = Path(__file__).parents[3]
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".xz", ".bz2")
"""Not opened, and told."""

PLACES = {"notebooks": "", "notebooks/zh": "zh_", "assignment": "assignment_"}
"""Where work lies in the repository that students get, and what tells its files from those of the same name: as in `make grade`, the
notebook w8a8.ipynb goes before zh_w8a8.ipynb and assignment_w8a8.py where several were begun."""

Unpack = Callable[[Path, Path, int], list[RefusedMember]]
"""Unpacks an archive into a folder, at most so many bytes, as `archives.unpack` does."""


def unpack_here(archive: Path, target: Path, max_bytes: int) -> list[RefusedMember]:
    """Unpacks in this process."""
    return unpack(archive, target, max_bytes=max_bytes)


@dataclass(frozen=True)
class Unpacking:
    """Where archives are unpacked and files put together, and by what.

    room: the bytes to which one hand-in's archives may be unpacked.
    """

    workspace: Path
    unpack: Unpack
    room: int = MAX_STUDENT_BYTES
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def fresh(self, name: str) -> Path:
        """A folder of its own for every hand-in."""
        safe = re.sub(r"[^A-Za-z0-9.-]+", "_", name)[:80]
        folder = self.workspace / f"{safe}.{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder

    def all(self, archives: Sequence[Path], name: str, *, ordered: bool) -> tuple[Path, Mapping[Path, Path], Sources]:
        """One student's archives, unpacked side by side: the folder, where in it each was unpacked, and which were not.

        The newest come first: of files of one name, those count. ordered: the archives come so.
        """
        chosen, left = newest_of(list(archives), ordered=ordered)
        folder, notes = self.fresh(name), list(dict.fromkeys(why for _, why in left))
        taken: dict[Path, Path] = {}
        for number, archive in enumerate(chosen):
            label = archive.stem[:40].replace("_", " ")  # which no platform could have given
            target = folder / str(number) / label  # never among the files that are copied beside it
            target.mkdir(parents=True)
            try:
                notes += notes_on(archive.name, self.unpack(archive, target, self.room // len(chosen)))
                taken[archive] = target
            except UnusableArchive as error:
                left.append((archive, str(error)))
                notes.append(str(error))
        return folder, taken, Sources(folder, tuple(taken), tuple(left), tuple(notes))


@dataclass(frozen=True)
class Sources:
    """What is graded: a folder, None where there are no sources; the files in it as they came; those left out, each with a sentence.

    notes: what has to be said to the student.
    """

    root: Path | None
    files: tuple[Path, ...] = ()
    left: tuple[tuple[Path, str], ...] = ()
    notes: tuple[str, ...] = ()


def children(folder: Path) -> list[Path]:
    """What a folder holds, hidden entries and what unpackers leave behind excepted, up to a limit; nothing of one that cannot be read,
    which `everything_below` tells."""
    found = []
    try:
        for child in folder.iterdir():
            if child.name.startswith((".", "__MACOSX", "__pycache__")):
                continue
            found.append(child)
            if len(found) >= MAX_LISTED:
                break
    except OSError:
        return []
    return sorted(found)


def is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def is_archive(path: Path) -> bool:
    """Whether its name is that of an archive that is read."""
    return path.suffix.lower() == ".zip"


def source_root(folder: Path, unpacking: Unpacking, wanted: Callable[[Path], bool] = is_source) -> Sources:
    """What to grade of a folder: the sources of the topmost level with a wanted one, and the work below for labs that these have none for.

    If they lie in several folders, or one of them is no plain file, they are copied into one.
    """
    chosen: list[tuple[Path, str]] = []
    clones: dict[Path, list[tuple[Path, str]]] = {}
    for level in levels(folder):
        found = _sources_in(level, clones)
        if chosen:
            known = begun_in(file for file, _ in chosen)
            chosen += [part for part in found if _brings(begun_in([part[0]]), known)]
        elif any(wanted(file) for file, _ in found):
            chosen = found
    if clones and not any(is_work(file) for file, _ in chosen):
        return _work_in(next(iter(clones)), unpacking)
    roots = {file.parent for file, _ in chosen}
    if len(roots) > 1 or any(file.name != name or not _is_plain(file) for file, name in chosen):
        return copied(chosen[:MAX_LISTED], unpacking.fresh(folder.name))
    return Sources(next(iter(roots), None), tuple(file for file, _ in chosen))


def _is_plain(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _sources_in(level: Sequence[Path], clones: dict[Path, list[tuple[Path, str]]]) -> list[tuple[Path, str]]:
    """The sources of some folders, with names to copy them by; of repositories, which join `clones`, those that were begun, what they
    lack beside the grader, and nothing that lies deeper in them."""
    here = [one for one in level if not any(own and one.is_relative_to(clone) for clone, own in clones.items())]
    new = {clone: _begun_in_repository(clone) for clone in filter(is_repository, here)}
    clones |= new
    found = [(file, file.name) for one in here if one not in new for file in children(one) if is_source(file)]
    return [part for own in new.values() for part in own] + found


def _begun_in_repository(repository: Path) -> list[tuple[Path, str]]:
    """The files of a repository that are not as they were given out, with names that tell their places; none where all are stubs. And
    what lies beside the grader."""
    files = _places(repository)
    begun = [] if all(map(without_work, files)) else [file for file in files if not is_given_out(file)]
    known = begun_in(begun)
    beside = [file for file in children(repository) if is_source(file) and _brings(begun_in([file]), known)]
    return [*((file, _name_in_place(file, repository)) for file in begun), *((file, file.name) for file in beside)]


def _brings(begun: set[str], known: set[str]) -> bool:
    """Whether a file has something that the others lack, and no kernel that one of them has: which of two counts is not asked here."""
    return not begun <= known and begun.isdisjoint(known & {lab.kernel for lab in all_labs().values()})


def may_be_work(path: Path) -> bool:
    """Whether the name is that of a source or an archive, also one that is not read, such as w8a8.rar and w8a8.py.txt."""
    name = path.name.lower()
    return is_source(path) or is_archive(path) or name.endswith(OTHER_ARCHIVES) or ".py." in name or ".ipynb." in name


def why_unread(path: Path) -> str:
    """Why what may be work is none of the files that are graded."""
    if any(part.startswith(".") for part in path.parts[-2:]):
        return "it is hidden"
    if is_source(path):
        return "files of another folder are graded"
    return "it is an archive beside files that are graded" if is_archive(path) else "it is no .py, .ipynb or .zip file"


def archives_in(folder: Path) -> list[Path]:
    """The archives in it and in the folders below."""
    return [child for level in levels(folder) for held in level for child in children(held) if is_archive(child)]


def are_of_several(hand_ins: Iterable[Path]) -> bool:
    """Whether these folders and files are several students' and not one's: of one student's no two hold the same kernel, but where they
    are places in the repository that students get. Repositories side by side are a student's each."""
    seen, places = set[str](), {Path(place).parts[0] for place in PLACES}
    hand_ins = list(hand_ins)
    if sum(is_repository(path) for path in hand_ins) > 1:
        return True
    for path in hand_ins:
        below = levels(path) if path.is_dir() else ()
        sources = ([file for held in level for file in children(held) if is_source(file)] for level in below)
        kernels = kernels_in(next(filter(None, sources), [] if path.is_dir() else [path]))
        if path.name in places:
            continue
        if kernels & seen:
            return True
        seen |= kernels
    return False


def levels(folder: Path) -> Iterator[list[Path]]:
    """The folder, the folders in it, those in these, and so on."""
    level = [folder]
    for _ in range(DEEPEST):
        yield level
        level = [_within(child) for held in level for child in _folders_in(held)][:MAX_FOLDERS]


def _folders_in(folder: Path) -> list[Path]:
    """The folders in one; of the repository that students get, those alone that it does not bring."""
    given = {path.name for path in ROOT.iterdir()} if is_repository(folder) else set()
    return [child for child in children(folder) if is_folder(child) and child.name not in given]


def _within(folder: Path) -> Path:
    """The folder, or what it wraps: a folder that holds nothing but another one is no level."""
    for _ in range(MAX_FOLDERS):
        held = children(folder)
        if len(held) != 1 or not is_folder(held[0]):
            break
        folder = held[0]
    return folder


def is_repository(folder: Path) -> bool:
    """Whether it is what students were given as a whole, the grader included."""
    return os.path.isdir(folder / "grader") and any(_plain_folder(folder, place) for place in PLACES)


def _work_in(repository: Path, unpacking: Unpacking) -> Sources:
    """The files of a student's repository in which nothing was begun: those that are not as they were given out, or all."""
    files = _places(repository)
    changed = [file for file in files if not is_given_out(file)]
    return copied(
        [(file, _name_in_place(file, repository)) for file in changed or files], unpacking.fresh(repository.name)
    )


def _places(repository: Path) -> list[Path]:
    """The sources that students are to change."""
    places = [repository / place for place in PLACES if _plain_folder(repository, place)]
    return [file for place in places for file in children(place) if is_source(file)]


def _plain_folder(repository: Path, place: str) -> bool:
    """Whether a folder is there, and no link leads to it out of the repository."""
    folder = repository / place
    return os.path.isdir(folder) and folder.resolve() == repository.resolve() / place


def is_given_out(file: Path) -> bool:
    """Whether it is one of the files that students are given, unchanged."""
    return not file.is_symlink() and any(are_alike(file, ROOT / place / file.name) for place in PLACES)


def are_alike(one: Path, other: Path) -> bool:
    """Whether two files hold the same; not where one is gone or cannot be read, which stops no class."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def without_work(file: Path) -> bool:
    """Whether a file is as it was given out, or has kernels and all of them are stubs."""
    return is_given_out(file) or (bool(kernels_in([file])) and not is_work(file))


def _name_in_place(file: Path, repository: Path) -> str:
    return PLACES[file.parent.relative_to(repository).as_posix()] + file.name


def copied(files: Iterable[tuple[Path, str]], folder: Path) -> Sources:
    """Copies plain files into a folder, each under the name beside it."""
    taken: list[Path] = []
    left: list[tuple[Path, str]] = []
    known, searched, placed = set[str](), 0, dict[Path, Path]()
    for file, name in files:
        target = folder / _fitting("", Path(name).name)
        if target.exists() and without_work(target) and not without_work(file):
            target.unlink()
            before = placed.pop(target)
            taken.remove(before)
            left.append((before, f"{before.name} is a stub, or as it was given out; another of that name counts"))
            known, searched = begun_in(taken), len(taken)
        if target.exists():
            known, searched = known | begun_in(taken[searched:]), len(taken)
            if not begun_in([file]) <= known:  # the work for another lab
                parts = (f"{file.parent.name[:20]}_", *(f"{number}_" for number in range(MAX_LISTED)))
                named = (folder / _fitting(part, target.name) for part in parts)
                target = next(one for one in named if not one.exists())
        try:
            if file.is_symlink():
                left.append((file, f"{file.name} is a link and was left out"))
            elif file.stat().st_size > MAX_FILE_BYTES:
                left.append((file, f"{file.name} has more than {MAX_FILE_BYTES >> 20} MB and was left out"))
            elif target.exists():
                other = file.name if file.name != target.name else f"that of {file.parent.name}"
                left.append((file, f"{target.name} was handed in more than once; {other} was left out"))
            else:
                with opened_plain(file) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
                taken.append(file)
                placed[target] = file
        except UnreadableFile as error:
            left.append((file, str(error)))
        except PermissionError as error:
            left.append((file, unreadable(file, error)))
    return Sources(folder if taken else None, tuple(taken), tuple(left), tuple(why for _, why in left))


def _fitting(beginning: str, name: str) -> str:
    """A name that begins so, without the first letters of the rest if it is longer than a file system takes."""
    while len(os.fsencode(beginning + name)) > MAX_NAME_BYTES:
        name = name[1:]
    return beginning + name


def nothing_to_grade(place: str, found: Sequence[Path]) -> str:
    """The sentence for a hand-in without sources, which says what is there instead."""
    while len(found) == 1 and is_folder(found[0]):
        place, found = found[0].name, children(found[0])
    names = ", ".join(path.name for path in found[:FEW]) + (" and more" if len(found) > FEW else "")
    kinds = (
        ".py or .ipynb file (an archive within an archive is not opened)"
        if any(map(is_archive, found))
        else ".py, .ipynb or .zip file"
    )
    what = f"holds {names} and no {kinds}" if found else "holds no .py or .ipynb file"
    return f"{place} {what}; ask for the notebook itself"


def unreadable(path: Path, error: OSError) -> str:
    """The sentence for what this user may not read."""
    return f"{path.name} cannot be read ({error.strerror or error}); check its permissions"
