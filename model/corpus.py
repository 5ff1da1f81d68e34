"""Which text is the model trained on, and which is kept from it? The sources of Python's standard library.

They are on every machine that runs the labs, so no text is downloaded or shipped. A file is held out when the first byte of
the SHA-256 of its name is below 24 (of 256): the choice depends on no version. What perplexity is measured on are those of
them that are the same, byte for byte, in Python 3.11 and 3.12 (`held_out.json` keeps their SHA-256), so that a number comes
again on another machine; a file that differs there is measured as it is, and `HeldOut.differing` names it. Shipping the text
would have been surer, but it is not ours: its licence would have to travel with every copy.
"""

from __future__ import annotations

import hashlib
import json
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from grader.unusable import Unusable

HELD_OUT_BELOW = 24
CHECKSUMS = Path(__file__).with_name("held_out.json")
LEFT_OUT = {"test", "tests", "site-packages", "dist-packages", "__pycache__", "lib2to3", "distutils", "idlelib", "tkinter", "turtledemo",
            "encodings", "pydoc_data"}
"""Folders that are missing on some machines or in some versions, or hold tables rather than text."""

BETWEEN = b"\0"
"""What separates files: a byte that no source holds."""


@dataclass(frozen=True)
class HeldOut:
    """The held-out text, and the files of it that are not those of the checksums: other bytes, or not there at all."""

    text: bytes
    files: int
    differing: tuple[str, ...]


def standard_library() -> Path:
    """Where this Python keeps the sources of its standard library."""
    return Path(sysconfig.get_path("stdlib"))


def held_out(name: str) -> bool:
    """Whether the file of this name, relative to the standard library, is kept from training."""
    return _place(name)[0] < HELD_OUT_BELOW


def sources(folder: Path) -> dict[str, Path]:
    """Name and path of every source that may be used, held out or not, in the order of names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        made_here = name.name.startswith("_sysconfigdata") or name.parts[0].startswith("config-")
        if not made_here and not LEFT_OUT & set(name.parts):
            found[name.as_posix()] = path
    return found


def training_text(folder: Path | None = None) -> bytes:
    """Every source that is not held out, one after the other. Raises Unusable."""
    folder = folder or standard_library()
    texts = [_text(path) for name, path in sources(folder).items() if not held_out(name)]
    if not texts:
        raise Unusable(f"found no Python sources in {folder}, expected the standard library; install it with its sources")
    return BETWEEN.join(texts)


def held_out_text(folder: Path | None = None, checksums: Path = CHECKSUMS) -> HeldOut:
    """The text that perplexity is measured on, in the order of the names' SHA-256, so that its beginning is a fair sample.

    Raises Unusable.
    """
    folder = folder or standard_library()
    wanted: dict[str, str] = json.loads(checksums.read_text(encoding="utf-8"))
    texts, differing = [], []
    for name in sorted(wanted, key=_place):
        path = folder / name
        text = _text(path) if path.is_file() else None
        if text is None or hashlib.sha256(text).hexdigest() != wanted[name]:
            differing.append(name)
        if text is not None:
            texts.append(text)
    if not texts:
        raise Unusable(f"found none of the {len(wanted)} held-out files in {folder}; install Python with its standard library")
    return HeldOut(BETWEEN.join(texts), len(wanted), tuple(differing))


def same_in(folders: list[Path]) -> dict[str, str]:
    """Name and SHA-256 of the held-out files that are the same, and not empty, in the standard libraries of all `folders`."""
    first, *others = [{name: _text(path) for name, path in sources(folder).items() if held_out(name)} for folder in folders]
    return {
        name: hashlib.sha256(text).hexdigest()
        for name, text in first.items()
        if text and all(other.get(name) == text for other in others)
    }


def _text(path: Path) -> bytes:
    return path.read_bytes().replace(b"\r\n", b"\n")


def _place(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
