"""Binaries of earlier runs on this machine, by what they are made of. For your own work: whoever could change them could change the grader.

A file holds a compiler's answer as the sandbox sent it; it is checked again like one that just came. Class grading keeps
nothing: there a cubin always comes from the text that is being graded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from grader.model import GeneratedModule
from grader.sandbox import Answer
from grader.sandbox.inside import wire

MAX_FILES = 2000
COMPILING = tuple(sorted(Path(__file__).with_name("sandboxed").glob("*.py")))


def own_folder() -> Path:
    """Where this user's binaries are cached: $XDG_CACHE_HOME or ~/.cache, below triton-kernel-lab."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triton-kernel-lab"


class BinaryCache:
    """Answers to compile requests in a folder, at most MAX_FILES of them; a folder that cannot be used keeps nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answer(self, made: GeneratedModule, request: Mapping[str, Any]) -> Answer | None:
        """What the compiler answered to this request when the module had this text."""
        path = self.folder / _key(made, request)
        try:
            stream = BytesIO(path.read_bytes())
            header, blobs = wire.decode(lambda count: _exactly(stream, count))
            os.utime(path)
        except (OSError, EOFError, wire.WireError):
            return None
        return Answer(header, blobs)

    def keep(self, made: GeneratedModule, request: Mapping[str, Any], answer: Answer) -> None:
        """Keeps an answer, and drops those that were not used for longest where there are too many."""
        path = self.folder / _key(made, request)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished.write_bytes(b"".join(wire.encode(answer.header, answer.blobs)))
            unfinished.replace(path)
            cached = list(self.folder.iterdir())
            if len(cached) > MAX_FILES:
                for stale in sorted(cached, key=lambda one: one.stat().st_mtime)[: MAX_FILES // 4]:
                    stale.unlink(missing_ok=True)


def _exactly(stream: BytesIO, count: int) -> bytes:
    part = stream.read(count)
    if len(part) != count:
        raise EOFError
    return part


def _key(made: GeneratedModule, request: Mapping[str, Any]) -> str:
    parts = [_compiler(), made.kernel, made.text, json.dumps(request, sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _compiler() -> str:
    """What makes the binaries, beside the request: Triton's version and the code that asks it."""
    code = b"".join(path.read_bytes() for path in COMPILING)
    return f"triton {version('triton')} {hashlib.sha256(code).hexdigest()}"
