"""What comes from a class, written to a disk: files by their places, and archives as what is in them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def archive(files: Mapping[str, Any]) -> bytes:
    """A zip archive; what has files of its own is an archive in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in files.items():
            bundle.writestr(name, archive(text) if isinstance(text, Mapping) else text)
    return out.getvalue()


def delivered(folder: Path, files: Mapping[str, Any]) -> Path:
    """The folder with these files in it, each text, bytes, or the files of an archive."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive(text) if isinstance(text, Mapping) else text.encode() if isinstance(text, str) else text)
    return folder
