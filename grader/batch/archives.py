"""Unpacks an archive that a stranger made: plain files only, inside the target, bounded in number and size."""

from __future__ import annotations

import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MAX_FILES = 20_000
MAX_FILE_BYTES = 256 << 20
MAX_TOTAL_BYTES = 4 << 30
MAX_RATIO = 200
"""A member that grows more than this many times is a bomb; notebooks full of outputs stay below 60."""

CHUNK_BYTES = 1 << 20


class UnusableArchive(ValueError):
    """An archive that cannot be read at all; the message is one sentence."""


@dataclass(frozen=True)
class RefusedMember:
    """One entry of an archive that was left out, and why."""

    name: str
    reason: str


def unpack(archive: Path, target: Path, *, max_bytes: int = MAX_TOTAL_BYTES) -> list[RefusedMember]:
    """Writes the archive's files below `target`; returns the entries that were refused.

    A refused entry never costs its neighbours: path traversal, links, devices, bombs and damaged data are left out
    one by one. Raises UnusableArchive when there is no reading it.
    """
    refused: list[RefusedMember] = []
    try:
        bundle = zipfile.ZipFile(archive)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UnusableArchive(f"{archive.name} is no readable zip archive ({error}); download it again") from None
    with bundle:
        members = [member for member in bundle.infolist() if not member.is_dir()]
        left = max_bytes
        for member in members[:MAX_FILES]:
            reason = _objection(member, left)
            if reason is None:
                path = target.joinpath(*_parts(member.filename))
                reason, size = _extract(bundle, member, path)
                left -= size
            if reason:
                refused.append(RefusedMember(member.filename, reason))
        if len(members) > MAX_FILES:
            refused.append(RefusedMember("...", f"{len(members)} files, only the first {MAX_FILES} were unpacked"))
    return refused


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(name.replace("\\", "/")).parts


def _objection(member: zipfile.ZipInfo, left: int) -> str | None:
    """Why this entry is not unpacked, from its header alone."""
    parts = _parts(member.filename)
    if not parts or ".." in parts or parts[0].endswith(("/", ":")) or "\0" in member.filename:
        return "points outside the archive"
    if any(len(part.encode()) > 255 for part in parts) or len(parts) > 32:
        return "has a name too long for a file"
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
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


def _extract(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> tuple[str | None, int]:
    """Writes one entry; why it failed, and how many bytes it took. What the header claims is not trusted."""
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with bundle.open(member) as source, path.open("xb") as out:
            while chunk := source.read(CHUNK_BYTES):
                written += len(chunk)
                if written > member.file_size:
                    raise zipfile.BadZipFile("larger than its header says")
                out.write(chunk)
        return None, written
    except FileExistsError:
        return "is there twice", 0
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        path.unlink(missing_ok=True)
        return f"is damaged ({error})", written
    except (NotADirectoryError, IsADirectoryError):
        return "is a file and a folder at once", 0
