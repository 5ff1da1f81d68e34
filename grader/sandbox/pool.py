"""Warm parents, one of a kind for this process: each has done its imports once, and is forked for every sandbox.

A parent knows no student: it runs in bubblewrap like any sandbox, and takes requests for forks only. A fork leaves the
parent's namespaces before it reads a byte, so that it cannot name the parent, a sibling, their files or sockets. A
parent that was ended is replaced at the next start. It ends with this process, whatever ends that.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import socket
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from grader.sandbox import confinement
from grader.sandbox.confinement import OPERATIONS
from grader.sandbox.failures import SandboxDied
from grader.sandbox.inside import places
from grader.sandbox.process_handle import ColdProcess, ForkedProcess, Pipes, ProcessHandle, Scratch

START_SECONDS = 240.0
"""The first fork waits for its parent's imports, on a slow disk for long."""

ATTEMPTS = 3
IMPORTED = {
    False: (
        "triton",
        "triton.compiler",
        "triton.backends.compiler",
        OPERATIONS,
        "grader.building.sandboxed.triton_stages",
    ),
    True: ("numpy.random", OPERATIONS, "grader.interpreter.launching"),
}
"""What a parent imports, by whether its forks interpret."""

CREDENTIALS = struct.Struct("3i")


class ParentEnded(Exception):
    """The parent is gone; another can be started."""


class CannotFork(Exception):
    """The parent lives, and says why it does not fork."""


class WarmParent:
    """One parent, from outside."""

    def __init__(self, interpret: bool, bwrap: str | None) -> None:
        self.confined = bwrap is not None
        self.proven = False
        variables = confinement.environment(interpret, places.SCRATCH if bwrap else tempfile.gettempdir())
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        arguments, how = ("forking", str(theirs.fileno()), *IMPORTED[interpret]), {"stderr": self._errors, "cwd": "/"}
        self._process = confinement.started(
            arguments, bwrap, variables, theirs.fileno(), stdin=subprocess.DEVNULL, **how
        )
        theirs.close()

    def fork(self) -> ForkedProcess:
        """A new fork that is ready to serve. Raises ParentEnded or CannotFork."""
        scratch = None if self.confined else Scratch()
        request = {
            "namespaces": self.confined,
            "operations": OPERATIONS,
            "user": scratch.user if scratch else None,
            "scratch": scratch.path if scratch else None,
        }
        pipes = Pipes()
        news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        news.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        descriptors = array.array("i", [pipes.theirs_in, pipes.theirs_out, theirs.fileno()])
        sent = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors.tobytes())]
        try:
            try:
                self.control.sendmsg([json.dumps(request).encode()], sent)
            finally:
                pipes.close_theirs()
                theirs.close()
            fork = ForkedProcess(self._first_news(news), pipes, news, scratch)
        except (OSError, ParentEnded, CannotFork) as error:
            pipes.close_ours()
            news.close()
            if scratch:
                scratch.remove()
            if isinstance(error, OSError):
                raise ParentEnded(f"{error} {self.last_words()}") from None
            raise
        self.proven = True
        return fork

    def _first_news(self, news: socket.socket) -> int:
        """Waits until the fork is up. Its pid, in our numbering, is the kernel's word."""
        news.settimeout(START_SECONDS)
        text, control_messages, _, _ = news.recvmsg(8192, socket.CMSG_SPACE(CREDENTIALS.size))
        if not text:
            raise ParentEnded(self.last_words())
        if not text.startswith(b"up "):
            raise CannotFork(text.decode(errors="replace"))
        for level, kind, data in control_messages:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                return int(CREDENTIALS.unpack(data[: CREDENTIALS.size])[0])
        raise CannotFork("its pid did not come along")

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).decode(errors="replace").strip()

    def end(self) -> None:
        """Ends it and all its forks."""
        self.control.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()


class Pool:
    """The parents of this process, started when the first sandbox of a kind is."""

    def __init__(self) -> None:
        self._parents: dict[tuple[bool, str | None], WarmParent] = {}
        self._cannot: dict[tuple[bool, str | None], str] = {}
        # A parent ends with the *thread* that started it: this one lasts as long as the process. It alone adds and removes parents.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="warm-parents")

    def prewarm(self, confined: bool | None) -> None:
        """Begins to look for bubblewrap, and to start a parent of each kind."""

        def started() -> None:
            bwrap = confinement.bubblewrap() if confined is not False else None
            for interpret in (False, True):
                self._started(interpret, bwrap)

        self._starter.submit(started)

    def start(self, interpret: bool, bwrap: str | None) -> ProcessHandle:
        """A new process that serves: a fork, or one started cold where forks cannot be kept apart."""
        kind = interpret, bwrap
        words = ""
        for _ in range(ATTEMPTS):
            if kind in self._cannot:
                return ColdProcess(interpret, bwrap)
            parent = self.parent(interpret, bwrap)
            try:
                return parent.fork()
            except CannotFork as reason:
                if not parent.proven:
                    self._cannot[kind] = str(reason)
                    self._discard(kind, parent)
                return ColdProcess(interpret, bwrap)
            except ParentEnded as end:
                words = str(end)
                self._discard(kind, parent)
        raise SandboxDied(f"the process that sandboxes are forked from ended {ATTEMPTS} times: {words[-400:]}")

    def parent(self, interpret: bool, bwrap: str | None) -> WarmParent:
        """The parent of a kind, begun if there is none. Returns before its imports are done."""
        return self._starter.submit(self._started, interpret, bwrap).result()

    def _started(self, interpret: bool, bwrap: str | None) -> WarmParent:
        kind = interpret, bwrap
        if kind not in self._parents:
            self._parents[kind] = WarmParent(interpret, bwrap)
        return self._parents[kind]

    def _discard(self, kind: tuple[bool, str | None], parent: WarmParent) -> None:
        def discarded() -> None:
            if self._parents.get(kind) is parent:
                del self._parents[kind]
                parent.end()

        self._starter.submit(discarded).result()

    def end(self) -> None:
        """Ends every parent."""
        self._starter.shutdown()
        for parent in self._parents.values():
            parent.end()
        self._parents.clear()

    def forget(self) -> None:
        """In a child of this process: the parents belong to the process above."""
        for parent in self._parents.values():
            parent.control.close()


_pool = Pool()


def pool() -> Pool:
    """This process's own."""
    return _pool


def prewarm(*, confined: bool | None = None) -> None:
    """Begins to start the parents; returns at once."""
    _pool.prewarm(confined)


def _reseeded() -> None:
    global _pool
    _pool.forget()
    _pool = Pool()


os.register_at_fork(after_in_child=_reseeded)
atexit.register(lambda: _pool.end())
