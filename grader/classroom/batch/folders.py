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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.classroom.batch.archives import (
    MAX_ARCHIVES,
    MAX_FILE_BYTES,
    MAX_STUDENT_BYTES,
    RefusedMember,
    notes_on,
)
from grader.classroom.batch.begun import begun_in, is_work, kernels_in
from grader.classroom.batch.hand_in import Left
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

Part = tuple[Path, str]
"""A file, and the name that its student gave it."""


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

    def all(self, archives: Sequence[Path], name: str, *, ordered: bool) -> Sources:
        """One student's archives, unpacked side by side.

        The newest come first: of files of one name, those count. ordered: the archives come so, as a platform numbered them; else the
        files' own times say it.
        """
        by_time = archives if ordered else sorted(archives, key=lambda archive: -archive.lstat().st_mtime_ns)
        chosen, others = by_time[:MAX_ARCHIVES], by_time[MAX_ARCHIVES:]
        why = f"{len(archives)} archives were handed in, only the newest {MAX_ARCHIVES} were unpacked"
        folder, left, notes = self.fresh(name), dict.fromkeys(others, Left(why)), [why] if others else []
        unpacked: dict[Path, Path] = {}
        for number, archive in enumerate(chosen):
            label = archive.stem[:40].replace("_", " ") + archive.suffix  # which no platform could have given
            target = folder / str(number) / label
            target.mkdir(parents=True)
            try:
                notes += notes_on(archive.name, self.unpack(archive, target, self.room // len(chosen)))
                unpacked[archive] = target
            except UnreadableFile as error:
                left[archive] = Left(str(error), "unreadable")
                notes.append(str(error))
        return Sources(folder, {}, left, tuple(notes), unpacked)


@dataclass(frozen=True)
class Sources:
    """What is graded: a folder, None where there are no sources; by their names there, the files as they came; those left out.

    notes: what has to be said to the student. unpacked: where each archive lies opened.
    """

    root: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    left: Mapping[Path, Left] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unpacked: Mapping[Path, Path] = field(default_factory=dict)

    def closed(self) -> Sources:
        """What is told of archives of which nothing is graded: those that could not be read."""
        left = {archive: one for archive, one in self.left.items() if one.fate == "unreadable"}
        return Sources(left=left, notes=tuple(one.why for one in left.values()))

    def archive_of(self, file: Path) -> Path | None:
        """The archive that a file was in; None for one that came by itself."""
        return next((archive for archive, at in self.unpacked.items() if file.is_relative_to(at)), None)


def children(folder: Path) -> list[Path]:
    """What a folder holds, hidden entries and what unpackers leave behind excepted, up to a limit; nothing of one that cannot be read,
    which `everything_below` tells."""
    try:
        shown = (child for child in folder.iterdir() if not child.name.startswith((".", "__MACOSX", "__pycache__")))
        return sorted(itertools.islice(shown, MAX_LISTED))
    except OSError:
        return []


def is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def is_archive(path: Path) -> bool:
    """Whether its name is that of an archive that is read."""
    return path.suffix.lower() == ".zip"


def is_closed_archive(path: Path) -> bool:
    """Whether its name is that of an archive that is not opened."""
    return path.name.lower().endswith(OTHER_ARCHIVES)


def topmost(levels: Sequence[Sequence[Part]], clones: Sequence[Path]) -> list[Part]:
    """What to grade: the sources of the topmost level with work, and the work below for labs that these have none for. Where there is no
    work at all, of a student's repository the files that are not as they were given out, or all; else the topmost sources."""
    for wanted in (is_work, _is_plain, os.path.lexists):
        chosen: list[Part] = []
        for found in levels:
            if chosen:
                known = begun_in(file for file, _ in chosen)
                chosen += [part for part in found if _brings(begun_in([part[0]]), known)]
            elif any(wanted(file) for file, _ in found):
                chosen = list(found)
        if chosen:
            return chosen
        if clones and wanted is is_work:
            parts = _places(clones[0])
            return [part for part in parts if not is_given_out(part[0])] or parts
    return []


def gathered(chosen: Sequence[Part], opened: Sources, unpacking: Unpacking, name: str, *, copy: bool) -> Sources:
    """What is graded of a hand-in, with what is to be said of its archives. If the files lie in several folders, or one of them is no
    plain file, they are copied into one. copy: even if not, since others' files lie beside them."""
    roots = {file.parent for file, _ in chosen}
    found = Sources(next(iter(roots), None), {file.name: file for file, _ in chosen})
    if chosen and (copy or len(roots) > 1 or any(file.name != own or not _is_plain(file) for file, own in chosen)):
        found = copied(chosen[:MAX_LISTED], unpacking.fresh(name))
    notes = opened.notes + found.notes
    return replace(found, left={**found.left, **opened.left}, notes=notes, unpacked=opened.unpacked)


def _is_plain(file: Path) -> bool:
    return os.path.isfile(file) and not os.path.islink(file)


def sources_by_level(folders: Sequence[Path], parts: Sequence[Part] = ()) -> tuple[list[list[Part]], list[Path]]:
    """The sources among some files and in some folders, in those below and so on, with names to copy them by, and the repositories among
    these folders: of such a one the files that were begun, what they lack beside the grader, and nothing that lies deeper in it."""
    found: list[list[Part]] = []
    clones: dict[Path, list[Part]] = {}
    for level in levels(*folders):
        here = [one for one in level if not any(own and one.is_relative_to(clone) for clone, own in clones.items())]
        new = {clone: _begun_in_repository(clone) for clone in filter(is_repository, here)}
        clones |= new
        plain = [(file, file.name) for one in here if one not in new for file in children(one) if is_source(file)]
        found.append([*itertools.chain(*new.values()), *plain])
    found[0] += [(file, own) for file, own in parts if is_source(Path(own)) or file.is_symlink()]
    return found, list(clones)


def _begun_in_repository(repository: Path) -> list[Part]:
    """The files of a repository that are not as they were given out; none where all are stubs. And what lies beside the grader."""
    parts = _places(repository)
    stubs = all(without_work(file) for file, _ in parts)
    begun = [] if stubs else [part for part in parts if not is_given_out(part[0])]
    known = begun_in(file for file, _ in begun)
    beside = [file for file in children(repository) if is_source(file) and _brings(begun_in([file]), known)]
    return [*begun, *((file, file.name) for file in beside)]


def _brings(begun: set[str], known: set[str]) -> bool:
    """Whether a file has something that the others lack, and no kernel that one of them has: which of two counts is not asked here."""
    return not begun <= known and begun.isdisjoint(known & {lab.kernel for lab in all_labs().values()})


def may_be_work(path: Path) -> bool:
    """Whether the name is that of a source or an archive, also one that is not read, such as w8a8.rar and w8a8.py.txt."""
    name = path.name.lower()
    return is_source(path) or is_archive(path) or is_closed_archive(path) or ".py." in name or ".ipynb." in name


def why_unread(path: Path, *, others: bool = True) -> str:
    """Why what may be work is none of the files that are graded. others: whether there are such files."""
    if any(part.startswith(".") for part in path.parts[-2:]):
        return "it is hidden"
    if path.is_symlink():
        return "it is a link"
    if is_source(path):
        return "files of another folder are graded" if others else "it lies too deep in folders; move it further up"
    if is_closed_archive(path):
        return "it is an archive that is not opened: only .zip files are"
    return "it is an archive beside files that are graded" if is_archive(path) else "it is no .py, .ipynb or .zip file"


def archives_in(folders: Sequence[Path], parts: Sequence[Part]) -> list[Path]:
    """The archives in some folders and in those below, in the places of a repository too, and among some files."""
    held = (place for level in levels(*folders) for one in level for place in (one, *_places_in(one)))
    found = [child for place in held for child in children(place) if is_archive(child)]
    return found + [file for file, own in parts if is_archive(Path(own)) and not file.is_symlink()]


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


def levels(*folders: Path) -> Iterator[list[Path]]:
    """The folders, the folders in them, those in these, and so on."""
    level = list(folders)
    for _ in range(DEEPEST):
        yield level
        level = [innermost(child) for held in level for child in _folders_in(held)][:MAX_FOLDERS]


def _folders_in(folder: Path) -> list[Path]:
    """The folders in one; of the repository that students get, those alone that it does not bring."""
    given = {path.name for path in ROOT.iterdir()} if is_repository(folder) else set()
    return [child for child in children(folder) if is_folder(child) and child.name not in given]


def innermost(folder: Path) -> Path:
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


def _places(repository: Path) -> list[Part]:
    """The sources that students are to change, with names that tell their places."""
    places = _places_in(repository).items()
    return [(file, prefix + file.name) for place, prefix in places for file in children(place) if is_source(file)]


def _places_in(folder: Path) -> dict[Path, str]:
    """Where work lies in a repository, as PLACES has it; nowhere in any other folder."""
    places = PLACES if is_repository(folder) else {}
    return {folder / place: prefix for place, prefix in places.items() if _plain_folder(folder, place)}


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


def copied(files: Iterable[Part], folder: Path) -> Sources:
    """Copies plain files into a folder, each under the name beside it; what has work before what has none."""
    taken: dict[str, Path] = {}
    left: dict[Path, Left] = {}
    known, searched = set[str](), 0
    for file, name in sorted(files, key=lambda part: without_work(part[0])):
        target = folder / _fitting("", Path(name).name)
        other = file.name if file.name != target.name else f"that of {file.parent.name}"
        again = f"{target.name} was handed in more than once; {other} was left out"
        if target.exists():
            if without_work(file) and not without_work(target):
                again = f"{file.name} is a stub, or as it was given out; another of that name counts"
            known, searched = known | begun_in(itertools.islice(taken.values(), searched, None)), len(taken)
            if not begun_in([file]) <= known:  # the work for another lab
                within = file.parent.name.removesuffix(".zip")[:20]
                parts = (f"{within}_", *(f"{number}_" for number in range(MAX_LISTED)))
                named = (folder / _fitting(part, target.name) for part in parts)
                target = next(one for one in named if not one.exists())
        try:
            if file.is_symlink():
                left[file] = Left(f"{file.name} is a link and was left out")
            elif file.stat().st_size > MAX_FILE_BYTES:
                left[file] = Left(f"{file.name} has more than {MAX_FILE_BYTES >> 20} MB and was left out")
            elif target.exists():
                left[file] = Left(again)
            else:
                with opened_plain(file) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy)
                taken[target.name] = file
        except (UnreadableFile, PermissionError) as error:
            left[file] = Left(unreadable(file, error) if isinstance(error, OSError) else str(error), "unreadable")
    return Sources(folder if taken else None, taken, left, tuple(one.why for one in left.values()))


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
