"""Writes a zip: equal files give an equal archive."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(out: Path, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
    """Writes name and content of each file, in the order of names; those in `executable` may be run."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o755 if name in executable else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
