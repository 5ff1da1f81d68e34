"""Where did every file go that came in? Each has one fate, and what nobody claims is not recognised: none can be lost."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from grader.authoring.bundle import OWN
from grader.classroom.batch.begun import begun_in, is_work, kernels_in
from grader.classroom.batch.folders import (
    PLACES,
    ROOT,
    are_alike,
    is_archive,
    is_closed_archive,
    is_given_out,
    may_be_work,
    why_unread,
)
from grader.classroom.batch.hand_in import HandIn, Left
from grader.classroom.batch.standing import Graded, Standing
from grader.labs import all_labs, get_lab
from grader.reading.files import is_source

Fate = Literal[
    "graded",
    "superseded",
    "not graded",
    "unreadable",
    "left out",
    "not recognised",
    "not asked for",
    "of the handout",
    "read for names and times",
    "of a system",
]
FATES: tuple[Fate, ...] = get_args(Fate)
"""Of a file that several share, the first counts."""

SYSTEMS = (".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini", ".git", ".ipynb_checkpoints", "__pycache__")
"""Names of files and folders that a computer leaves behind, not a student; so do those that begin with ._"""

FEW = 3
"""Files that a student's notes name."""

OF_HANDOUT: tuple[Fate, str] = ("of the handout", "")
"""A file of a clone at a place where the handout has one: as it was given out, or changed where no work is looked for."""

NO_SOURCE = "is not a .py, .ipynb or .zip file"

NO_VERDICT = "the grader came to no verdict"
UNCLAIMED = "belongs to no student: neither its name nor its folder says whose it is"


@dataclass(frozen=True)
class Came:
    """A file that came in: its place below what was given, and where it lies; nowhere if it could not be unpacked, with the reason.

    instead: what became of it and why, where it was read and is not what is graded.
    """

    name: str
    path: Path | None
    reason: str = ""
    instead: tuple[Fate, str] | None = None

    @property
    def systems(self) -> bool:
        return any(part in SYSTEMS or part.startswith("._") for part in Path(self.name).parts)


@dataclass(frozen=True)
class Accounted:
    """What became of a file, whose it is if anybody's (of a group, all their names), and why where a human should look."""

    file: str
    fate: Fate
    student: str = ""
    reason: str = ""


def everything_below(root: Path) -> list[Came]:
    """Every file, link and device below a folder; of a folder that cannot be read, and of a .git, the folder itself."""
    found: list[Came] = []

    def unreadable(error: OSError) -> None:
        place = Path(os.fsdecode(error.filename))
        found.append(
            Came(f"{place.relative_to(root)}/", place, f"cannot be read ({error.strerror}); check its permissions")
        )

    for folder, folders, files in os.walk(root, onerror=unreadable):
        whole = [name for name in folders if name == ".git" or os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in whole]
        found += [Came(str((path := Path(folder, name)).relative_to(root)), path) for name in (*files, *whole)]
    return sorted(found, key=lambda one: one.name)


def with_unread_named(hand_ins: Sequence[HandIn], came: Iterable[Came]) -> list[HandIn]:
    """The hand-ins, each saying which sources and archives of it are not graded: what lies deeper, or beside the sources."""
    claims = Claims(hand_ins)
    unread = defaultdict[str, dict[Path, str]](dict)
    for one in came:
        if (path := one.path) is None or one.systems or not may_be_work(path):
            continue
        for hand_in in claims.owners(path):
            reported = hand_in.refused or hand_in.failed or path in hand_in.taken or path in hand_in.left
            # what is there instead of sources has been told
            opened = is_source(path) or is_archive(path) or hand_in.taken
            no_work = hand_in.platform == "clone" and is_source(path) and _is_no_work(path, hand_in)
            if opened and not reported and not no_work:
                why = why_unread(path, others=bool(hand_in.taken))
                unread[hand_in.key][path] = f"{one.name} was not read: {why}"
    found = []
    for hand_in in hand_ins:
        whys = unread[hand_in.key]
        left = {**hand_in.left, **{path: Left(why) for path, why in whys.items()}}
        found.append(replace(hand_in, left=left).noting(*first_of([*whys.values()], FEW)))
    return found


def first_of(unread: Sequence[str], most: int) -> list[str]:
    """Of sentences on files that were not read the first, and how many there are more."""
    rest = len(unread) - most
    more = [f"{rest} more file{' was' if rest == 1 else 's were'} not read"] if rest > 0 else []
    return [*unread[:most], *more]


def with_ungraded_named(came: Iterable[Came], graded: Iterable[Graded], labs: Iterable[str]) -> list[Came]:
    """What came in, with what became of a file where none of its kernels is graded. The files themselves are asked, so what was unpacked
    has to be there still. labs: those that were asked for."""
    graded, asked = list(graded), {get_lab(lab_id).kernel for lab_id in labs}
    claims, by_key = Claims([one.hand_in for one in graded]), {one.hand_in.key: one for one in graded}
    found = []
    for one in came:
        if one.path is None:
            found.append(one)
            continue
        owners = claims.owners(one.path)
        if any(hand_in.platform == "clone" for hand_in in owners) and is_given_out(one.path):
            found.append(replace(one, instead=OF_HANDOUT))
            continue
        owners = [hand_in for hand_in in owners if one.path in hand_in.taken]
        instead = _instead(one.path, [by_key[owner.key].files for owner in owners], asked)
        if why := next(filter(None, (_why_unread(one.path, by_key[owner.key]) for owner in owners)), ""):
            instead = "not graded", why.split("\n")[0]
        found.append(replace(one, instead=instead))
    return found


def _why_unread(path: Path, graded: Graded) -> str:
    """Why nothing of a file, or of an archive, is graded: no kernel was read from it, and of something in it none could be."""
    names = {name for name, place in graded.hand_in.sources.items() if place == path}
    read = {file.name for file in graded.files.values()}
    return next((why for name, why in graded.unread.items() if name in names), "") if names.isdisjoint(read) else ""


def _instead(path: Path, read: Sequence[Mapping[str, Path]], asked: AbstractSet[str]) -> tuple[Fate, str] | None:
    """What became of a file that was read, and why, where none of its kernels is graded: all were read from other files, or not asked for.

    read: from which file each lab's kernel was, for each owner.
    """
    kernels = kernels_in([path]) if read and is_source(path) else set()
    asked_labs = {lab.id for lab in all_labs().values() if lab.kernel in asked}
    if kernels and any(name.partition("_")[0] in asked_labs for name in begun_in([path]) - kernels):
        return None  # of which the first file need not be the only one
    others = set[str]()
    for lab_id, other in (each for files in read for each in files.items()):
        if get_lab(lab_id).kernel in kernels:
            if are_alike(path, other):
                return None
            others.add(other.name)
    if others:
        return "superseded", f"its kernel is taken from {' and '.join(sorted(others))}"
    return ("not asked for", "") if kernels and not kernels & asked else None


def account(came: Iterable[Came], hand_ins: Sequence[HandIn], standings: Sequence[Standing]) -> list[Accounted]:
    """What became of every file. hand_ins: all that came in, those too that were not asked for."""
    claims, found, why_open = Claims(hand_ins), [], dict[str, str]()
    outcomes: dict[str, Fate] = {other.hand_in.key: "superseded" for one in standings for other in one.others}
    counting = {one.hand_in.key: one for standing in standings for one in standing.counting}
    for key, counts in counting.items():
        outcomes[key] = "not graded" if any(one.points is None for one in counts.parts().values()) else "graded"
        open_labs = (lab.message.split("\n")[0] for lab in counts.report.labs.values() if lab.status == "not_graded")
        why_open[key] = next(open_labs, NO_VERDICT)
    for one in came:
        owners = [] if one.path in claims.read else claims.owners(one.path)
        fates = [(owner.student, *_fate(one, owner, outcomes, why_open)) for owner in owners] or [
            ("", *_nobodys(one, claims))
        ]
        _, fate, reason = min(fates, key=lambda each: FATES.index(each[1]))
        student = ", ".join(dict.fromkeys(who for who, _, _ in fates))
        if fate == "graded" and one.instead:
            fate, reason = one.instead
        if fate == "graded" and all(_replaced(one.path, counting.get(owner.key)) for owner in owners):
            fate, reason = "superseded", "its kernel is taken from another hand-in"
        found.append(Accounted(one.name, fate, student, reason))
    return found


def tally(found: Sequence[Accounted]) -> str:
    """The count, such as "24 files: 22 graded, 1 superseded, 1 not recognised"."""
    counts = Counter(one.fate for one in found)
    return f"{len(found)} {'file' if len(found) == 1 else 'files'}: " + ", ".join(
        f"{counts[fate]} {fate}" for fate in FATES if counts[fate]
    )


def _replaced(path: Path | None, counting: Graded | None) -> bool:
    """Whether a file has kernels, and those of another hand-in count in place of all of them; answers may count all the same."""
    if counting is None or counting.answers:
        return False
    sources, files = counting.hand_in.sources, counting.files.items()
    own = {lab_id for lab_id, file in files if sources.get(file.name) == path}
    return bool(own) and own.isdisjoint(counting.report.labs)


class Claims:
    """Which hand-in a file belongs to. read: what only tells names and times."""

    def __init__(self, hand_ins: Sequence[HandIn]) -> None:
        self._holders: dict[Path, list[HandIn]] = {}
        for hand_in in hand_ins:
            for path in hand_in.holds:
                self._holders.setdefault(path, []).append(hand_in)
        self.read = {path for hand_in in hand_ins for path in hand_in.read}

    def owners(self, path: Path | None) -> list[HandIn]:
        """The hand-ins that a file belongs to: several where people submitted together."""
        places = (path, *path.parents) if path else ()
        return next((self._holders[place] for place in places if place in self._holders), [])


def _nobodys(one: Came, claims: Claims) -> tuple[Fate, str]:
    """What became of a file that no hand-in has, and why: what tells names and times beside it does not list it, or no platform gives
    such a name."""
    if one.path in claims.read:
        return "read for names and times", ""
    if one.systems:
        return "of a system", ""
    lists = [read.name for read in claims.read if one.path and one.path.is_relative_to(read.parent)]
    unlisted = f"belongs to no student: {lists[0]} does not list it" if lists else UNCLAIMED
    return ("unreadable", one.reason) if one.reason else ("not recognised", unlisted)


def _fate(one: Came, hand_in: HandIn, outcomes: Mapping[str, Fate], why_open: Mapping[str, str]) -> tuple[Fate, str]:
    """What became of a file of a hand-in, and why. why_open: why hand-ins have no verdict, by their keys."""
    outcome = outcomes.get(hand_in.key, "not asked for")
    clone, path = hand_in.platform == "clone", one.path or Path()
    untouched = clone and path not in hand_in.left and any(given.exists() for given in _as_given(path, hand_in))
    if untouched and one.instead == OF_HANDOUT:
        return OF_HANDOUT
    if path in hand_in.taken:
        return outcome, why_open[hand_in.key] if outcome == "not graded" else ""
    if one.systems:
        return "of a system", ""
    if outcome == "not asked for":
        return outcome, ""
    return OF_HANDOUT if untouched and not is_closed_archive(path) else _left_out(one, hand_in)


def _left_out(one: Came, hand_in: HandIn) -> tuple[Fate, str]:
    """What became of a file of a hand-in that is none of those that are graded, and why."""
    path = one.path or Path()
    left = hand_in.left.get(path)
    if one.reason or is_closed_archive(path):
        return "unreadable", one.reason or (left.why if left else why_unread(path))
    if left:
        return left.fate, left.why
    if may_be_work(path) and (refused := hand_in.refused or hand_in.failed):
        return "unreadable", refused
    outside = hand_in.platform == "clone" and is_source(path)
    return "left out", f"lies in none of {', '.join(PLACES)}" if outside else NO_SOURCE


def _is_no_work(path: Path, hand_in: HandIn) -> bool:
    """Whether a file of a clone has no kernel, or is one that students were given with no work in it but ours, such as in solutions/,
    which only the whole repository has."""
    given = _as_given(path, hand_in)
    ours = any(one.exists() for one in given) and (not is_work(path) or any(are_alike(path, one) for one in given))
    return not kernels_in([path]) or ours


def _as_given(path: Path, hand_in: HandIn) -> list[Path]:
    """Where a file of a clone lies in the repository, and in what students get of their own."""
    names = [path.relative_to(place) for place in hand_in.holds if path.is_relative_to(place)]
    return [root / name for root in (ROOT, ROOT / OWN) for name in names]
