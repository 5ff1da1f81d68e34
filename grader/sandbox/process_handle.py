"""One process that serves requests, seen from outside: its pipes, its pid, its end. Started cold, or forked warm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from grader.sandbox import confinement
from grader.sandbox.failures import SandboxLost
from grader.sandbox.inside import places

END_SECONDS = 5.0
"""How long a process that closed its pipes, or was killed, is given to be gone."""


class Pipes:
    """Two pipes to a process: the ends kept here never block."""

    def __init__(self) -> None:
        self.theirs_in, self.requests = os.pipe()
        self.answers, self.theirs_out = os.pipe()
        os.set_blocking(self.requests, False)
        os.set_blocking(self.answers, False)

    def close_theirs(self) -> None:
        """Once the process has them."""
        os.close(self.theirs_in)
        os.close(self.theirs_out)

    def close_ours(self) -> None:
        """At the end."""
        os.close(self.requests)
        os.close(self.answers)


class Scratch:
    """Where an unconfined process may write, and whom it is given to; a confined one needs neither."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grader-", ignore_cleanup_errors=True)
        self.path = self._folder.name
        self.user = confinement.other_user()
        if self.user:
            os.chown(self.path, *self.user)

    def remove(self) -> None:
        """Ends what the user still runs, and removes the folder."""
        if self.user:
            _end_processes_of(self.user[0])
        self._folder.cleanup()


class ColdProcess:
    """A process started for itself, for where a warm one cannot be forked; in use the same as a ForkedProcess."""

    def __init__(self, interpret: bool, bwrap: str | None) -> None:
        self._scratch = Scratch() if bwrap is None else None
        user = self._scratch.user if self._scratch else None
        home = self._scratch.path if self._scratch else places.SCRATCH
        variables = confinement.environment(interpret, home)
        pipes = Pipes()
        self._process = confinement.started(
            ("worker", str(pipes.theirs_out), confinement.OPERATIONS),
            bwrap,
            variables,
            pipes.theirs_out,
            stdin=pipes.theirs_in,
            stderr=subprocess.DEVNULL,
            cwd=home if self._scratch else "/",
            user=user[0] if user else None,
            group=user[1] if user else None,
            extra_groups=[] if user else None,
        )
        pipes.close_theirs()
        self._pipes = pipes
        self.pid, self.requests, self.answers, self.shielded = self._process.pid, pipes.requests, pipes.answers, False

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    def kill(self) -> None:
        if not self.ended:
            kill_group(self.pid)

    def end(self) -> int | None:
        try:
            code = self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        return 128 - code if code > 128 else code

    def close(self) -> None:
        self.kill()
        self._process.wait()
        self._pipes.close_ours()
        if self._scratch:
            self._scratch.remove()


class ForkedProcess:
    """A process forked from a warm parent, which tells over `news` when it is up and how it ended. It serves until it is killed.

    pid: in the grader's own numbering; it and all that it starts are below this one. requests, answers: descriptors to write requests
    to, and to read answers from. shielded: whether nobody inside can end it with a signal, so that a SIGKILL came from outside.
    """

    def __init__(self, pid: int, pipes: Pipes, news: socket.socket, scratch: Scratch | None) -> None:
        self.pid, self.requests, self.answers = pid, pipes.requests, pipes.answers
        self.shielded = scratch is None
        self._pipes, self._news, self._scratch = pipes, news, scratch
        self._pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        self._status: int | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether it is known to be over."""
        return self._ended

    def kill(self) -> None:
        """Ends it and all that it started, at once; from any thread, as often as one likes."""
        if self._scratch:
            kill_group(self.pid)
        if self._ended:
            return
        try:
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self) -> int | None:
        """Waits for its end: an exit status, less a signal's number, or None. Raises SandboxLost."""
        if not self._ended:
            self._news.settimeout(END_SECONDS)
            try:
                said = self._news.recv(4096).decode(errors="replace")
            except TimeoutError:
                self.kill()
                return None
            self._ended = True
            if not said:
                raise SandboxLost("the grader's own process above it was ended from outside")
            word, _, rest = said.partition(" ")
            self._status = int(rest) if word == "ended" else 1
        return self._status

    def close(self) -> None:
        """Kills it, and lets go of everything."""
        self.kill()
        try:
            self.end()
        except (SandboxLost, OSError):
            pass
        self._ended = True
        self._news.close()
        self._pipes.close_ours()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        if self._scratch:
            self._scratch.remove()


ProcessHandle = ColdProcess | ForkedProcess


def kill_group(pid: int) -> None:
    """Ends the processes of a session that began with `pid`."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _end_processes_of(user: int) -> None:
    """Kills every process of a user that has sandboxed processes only, and waits until there is none.

    By one call for all of them: who looks for them one by one misses the child of one that forks and ends in the meantime. Raises
    CalledProcessError where the user cannot be taken on.
    """
    while True:
        command = [sys.executable, "-I", "-S", "-c", KILL_ALL, str(user), str(confinement.NO_USER)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        if all(_user_of(pid) != user for pid in map(int, filter(str.isdigit, os.listdir("/proc")))):
            return
        time.sleep(0.005)


KILL_ALL = """
import os, signal, sys
user, no_user = map(int, sys.argv[1:])
os.setgroups([])
os.setresuid(no_user, user, no_user)
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    pass
"""
"""Signals all that the effective user may signal. The real user is nobody's, so that what is killed cannot kill this first."""


def _user_of(pid: int) -> int | None:
    """Whose process it is, as long as it lives. (The owner of /proc/PID is root for one that may not be dumped.)"""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return None
    return None if lines["State"].split()[0] in "ZX" else int(lines["Uid"].split()[1])
