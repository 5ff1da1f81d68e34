"""Unpacks an archive that a stranger made: plain files only, inside the target, bounded in number and size."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from grader.plain_files import UnreadableFile, in_brief, opened_plain

MAX_FILES = 20_000
MAX_FILE_BYTES = 256 << 20
MAX_TOTAL_BYTES = 4 << 30
MAX_STUDENT_BYTES = 1 << 30
"""What one student's own archive may unpack to; a class's has MAX_TOTAL_BYTES."""

MAX_RATIO = 200
"""A member that grows more than this many times is a bomb; notebooks full of outputs stay below 60."""

MAX_ARCHIVES = 8
"""Archives of one hand-in that are unpacked, the newest; each may come to its share of what the student's work may."""

MAX_NOTES = 10
"""Entries of an archive that are named where they were left out."""

SECONDS = 120.0
"""After this the rest of a student's archive is ignored; a class's has as much more as it may be larger."""

MAX_PATH_BYTES = 2000
"""Of an entry's name with its folders; a file system takes twice as much, the workspace included."""

CHUNK_BYTES = 1 << 20
UTF8 = 0x800
"""The bit of a header that says that its name is UTF-8."""

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)
"""What reading an entry raises whose bytes are not those that were packed."""

SPARE_BYTES = 256 << 20
"""Unpacking leaves this much of the disk to the journal and the report."""


class NotUnpacked(ValueError):
    """One entry of an archive that is left out; the message says why."""


class DiskFull(OSError):
    """There is no room to unpack: the machine's fault, and no verdict on the archive."""


@dataclass(frozen=True)
class RefusedMember:
    """One entry of an archive that was left out, and why. damaged: whether its bytes are not those that were packed."""

    name: str
    reason: str
    damaged: bool = False


def unpack_if_readable(archive: Path, target: Path, max_bytes: int) -> list[RefusedMember] | UnreadableFile:
    """`unpack` for another process: an archive that cannot be read is an answer, not an error."""
    try:
        return unpack(archive, target, max_bytes)
    except UnreadableFile as problem:
        return problem


def unpack(archive: Path, target: Path, max_bytes: int = MAX_TOTAL_BYTES) -> list[RefusedMember]:
    """Writes the archive's files below `target`; returns the entries that were refused.

    A refused entry never costs its neighbours: path traversal, links, devices, bombs and damaged data are left out
    one by one. Raises UnreadableFile when there is no reading it, DiskFull when there is no room.
    """
    refused: list[RefusedMember] = []
    deadline = time.monotonic() + SECONDS * max(1.0, max_bytes / MAX_STUDENT_BYTES)
    try:
        with opened_plain(archive) as file, _opened(file) as bundle:
            members = bundle.infolist()
            left = max_bytes
            if before := min((member.header_offset for member in members), default=0):
                foreign = (
                    f"begins with {before} bytes that are no part of it, such as another archive; unpack that by hand"
                )
                refused.append(RefusedMember(archive.name, foreign))
            for member in members[:MAX_FILES]:
                member.filename = _name(member)
                try:
                    left -= _unpack_one(bundle, member, target, left, deadline)
                except DiskFull:
                    raise
                except Exception as error:  # so does each decompressor, in its own words
                    why = str(error) if isinstance(error, NotUnpacked) else f"is damaged ({in_brief(error)})"
                    refused.append(RefusedMember(member.filename, why, isinstance(error, DAMAGE)))
            late = f"is one of {len(members)} files, and only the first {MAX_FILES} were unpacked"
            refused += [RefusedMember(_name(member), late) for member in members[MAX_FILES:] if not member.is_dir()]
    except (DiskFull, UnreadableFile):
        raise
    except Exception as error:  # zipfile raises a dozen kinds for what is no archive
        raise UnreadableFile(
            f"{archive.name} is not a readable zip archive ({in_brief(error)}); download it again, or ask for a new one"
        ) from None
    return refused


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    """The archive; where a name is said to be UTF-8 and is none, with all names read byte by byte."""
    try:
        return zipfile.ZipFile(file)
    except UnicodeDecodeError:
        return zipfile.ZipFile(_without_encodings(file))


def _without_encodings(file: BinaryIO) -> BinaryIO:
    """A copy of the archive whose headers say nothing of how names are encoded: zipfile then takes any byte."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115
    file.seek(0)
    shutil.copyfileobj(file, copy)
    copy.flush()
    with mmap.mmap(copy.fileno(), 0) as data:
        end = data.rfind(b"PK\x05\x06")  # of the directory, where it and its length are told
        count, length = struct.unpack_from("<HI", data, end + 10)
        place = end - length
        for _ in range(count):
            offset = struct.unpack_from("<I", data, place + 42)[0]
            for flags in (place + 8, offset + 6):
                data[flags + 1] &= ~(UTF8 >> 8)
            place += 46 + sum(struct.unpack_from("<HHH", data, place + 28))
    return cast("BinaryIO", copy)


def _name(member: zipfile.ZipInfo) -> str:
    """An entry's name; UTF-8 also where the header does not say so, as Canvas and Info-ZIP write it, or GBK, as Windows does in China.

    GBK is tried only where the name as the format has it holds what no name does, such as a line of a box.
    """
    if member.flag_bits & UTF8:
        return member.filename
    encodings = ["utf-8"] + ["gbk"] * any(not letter.isascii() and not letter.isalpha() for letter in member.filename)
    for encoding in encodings:
        try:
            return member.filename.encode("cp437").decode(encoding)
        except UnicodeError:
            pass
    return member.filename


def _unpack_one(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, left: int, deadline: float) -> int:
    """Writes one entry, and says how many bytes it took. Raises NotUnpacked; a folder's name that cannot be is nobody's loss."""
    objection, path = _objection(member, left), target.joinpath(*_parts(member.filename))
    if member.filename.endswith(("/", "\\")):
        if objection is None:
            path.mkdir(parents=True, exist_ok=True)
        return 0
    if objection is not None:
        raise NotUnpacked(objection)
    return _extract(bundle, member, path, deadline)


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(name.replace("\\", "/")).parts


def place_of(name: str, target: Path) -> Path | None:
    """Where an entry of this name lies below a folder; None where it points out of it."""
    parts = _parts(name)
    outside = not parts or ".." in parts or parts[0].endswith(("/", ":")) or "\0" in name
    return None if outside else target.joinpath(*parts)


def _objection(member: zipfile.ZipInfo, left: int) -> str | None:
    """Why this entry is not unpacked, from its header alone."""
    parts = _parts(member.filename)
    if place_of(member.filename, Path()) is None:
        return "points outside the archive"
    if (
        any(len(os.fsencode(part)) > 255 for part in parts)
        or len(parts) > 32
        or len(os.fsencode(member.filename)) > MAX_PATH_BYTES
    ):
        return "has a name too long for a file"
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFDIR if member.filename.endswith(("/", "\\")) else stat.S_IFREG):
        return "is a link or a device, not a plain file"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.file_size > MAX_FILE_BYTES:
        return f"unpacks to {member.file_size >> 20} MB, at most {MAX_FILE_BYTES >> 20} MB are read"
    if member.file_size > left:
        return "would make the archive larger than is unpacked"
    if member.file_size > CHUNK_BYTES and member.file_size > MAX_RATIO * max(1, member.compress_size):
        return f"grows {member.file_size // max(1, member.compress_size)} times when unpacked, like a bomb"
    return None


def _extract(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, deadline: float) -> int:
    """Writes one file, and says how many bytes it took. What the header claims is not trusted."""
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotUnpacked("is a file and a folder at once") from None
    if shutil.disk_usage(path.parent).free < member.file_size + SPARE_BYTES:
        raise DiskFull("there is no room to unpack it; free some space and run the same command again")
    try:
        out = path.open("xb")
    except FileExistsError:
        raise NotUnpacked("is there twice") from None
    try:
        with out, bundle.open(member) as source:
            while chunk := source.read(CHUNK_BYTES):
                written += len(chunk)
                if written > member.file_size:
                    raise zipfile.BadZipFile("larger than its header says")
                if time.monotonic() > deadline:
                    raise NotUnpacked("takes too long to unpack")
                out.write(chunk)
        with contextlib.suppress(ValueError):  # an archive may name the 30th of February
            seconds = datetime(*member.date_time, tzinfo=UTC).timestamp()
            os.utime(path, (seconds, seconds))  # when it was unpacked says nothing of when it was handed in
        return written
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def notes_on(archive: str, refused: list[RefusedMember]) -> tuple[str, ...]:
    """What was left out of an archive, the first few by name."""
    named = tuple(f"{archive}: {entry.name} {entry.reason}" for entry in refused[:MAX_NOTES])
    more = len(refused) - len(named)
    return (*named, f"{archive}: {more} more entries were left out") if more else named
