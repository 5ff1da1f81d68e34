"""Opening a file that a stranger handed in: a plain one, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class UnreadableFile(ValueError):
    """A file that holds no readable source; the message is one sentence for the student."""


def in_brief(error: BaseException) -> str:
    """What went wrong, in one line that is not too long; of an error without words its kind.

    Without the path that a file system names: where it lies here is nobody's business.
    """
    words = (isinstance(error, OSError) and error.strerror) or str(error).strip()
    return (words.splitlines() or [type(error).__name__])[0][:200]


def opened_plain(path: Path) -> BinaryIO:
    """A plain file, opened to be read. Raises OSError; for a link, a FIFO, a device or a socket UnreadableFile.

    Nothing here waits for somebody else: a FIFO is opened without blocking, and left.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a socket or a FIFO's other kind
            raise
    else:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    raise UnreadableFile(f"{path.name} is not a plain file; hand in the file itself")
