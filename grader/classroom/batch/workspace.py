"""A temporary folder for unpacked archives, which goes with the batch, or with the next one when the batch was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from multiprocessing import util
from pathlib import Path

PREFIX = "grader-batch-"
AFTER_ITS_OWN = -200
"""When multiprocessing has removed what it made in the folder, which is at -100."""


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A new folder, removed at the end; folders that killed batches of this user left are removed at the start."""
    folder, descriptor = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@cache
def own_folder() -> Path:
    """This process's folder for what lasts as long as it does, such as sockets."""
    folder, _ = _locked_folder()
    util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=AFTER_ITS_OWN)
    return folder


def _locked_folder() -> tuple[Path, int]:
    """A new folder and the lock on it, after the folders that nobody holds any more are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_unless_in_use(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)  # another batch took it for one that was left


def _remove_unless_in_use(folder: Path) -> None:
    """The owner of a folder in use holds a lock on it, which ends with its process however that ends."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:
        return
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(descriptor)
