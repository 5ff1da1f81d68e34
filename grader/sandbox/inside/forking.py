"""The warm parent: has imported what sandboxes need, knows no student, and is forked for each of them.

    python entry.py forking CONTROL_FD MODULE...

A request on the control socket is JSON with three descriptors: where the fork reads its requests, where it answers,
and a socket for its news: `up PID` from the fork before it serves, `ended STATUS` from here when it is over. The fork
keeps the first two only; it leaves this process's namespaces before it reads a byte (`isolation`). Where there is no
bubblewrap there are no namespaces either: then it becomes another user, if the request names one.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from grader.sandbox.inside import isolation, worker

REQUESTS, ANSWERS, NEWS = 3, 4, 5
"""Descriptors of a fork; 0, 1 and 2 are /dev/null, and its news are closed before it serves."""

ALLOCATED = 50_000
"""Objects that a fork allocates between two looks for garbage: Python's 700 costs a tenth of its time."""


class Parent:
    """Forks on request, and tells how each fork ended."""

    def __init__(self, control: socket.socket, unable: str | None) -> None:
        """unable: why this process must not be forked; every request is then answered with that."""
        self.control, self.unable = control, unable
        self.news: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Until the grader closes its end."""
        wakeup, written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if wakeup in ready:
                os.read(wakeup, 4096)
            self.reap()
            if self.control.fileno() in ready and not self.accept():
                return

    def reap(self) -> None:
        """Passes on the status of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            news = self.news.pop(pid, None)
            if news:
                _tell(news, f"ended {os.waitstatus_to_exitcode(status)}")
                news.close()

    def accept(self) -> bool:
        """Takes one request. False when there will be no more."""
        ancillary = socket.CMSG_SPACE(3 * array.array("i").itemsize)
        text, control_messages, _, _ = self.control.recvmsg(1 << 16, ancillary)
        if not text:
            return False
        descriptors = array.array("i")
        for _, _, data in control_messages:
            descriptors.frombytes(data)
        requests, answers, news_descriptor = descriptors
        news = socket.socket(fileno=news_descriptor)
        try:
            if self.unable:
                raise OSError(self.unable)
            pid = self.fork(json.loads(text), requests, answers, news)
        except OSError as error:
            _tell(news, f"failed {error}")
            news.close()
        else:
            self.news[pid] = news
        os.close(requests)
        os.close(answers)
        return True

    def fork(self, request: dict[str, Any], requests: int, answers: int, news: socket.socket) -> int:
        """The new fork's pid. With namespaces a process between leaves them first, so that the fork is process 1."""
        if not request["namespaces"]:
            pid = os.fork()
            if pid == 0:
                _live(request, requests, answers, news)
            return pid
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            _leave(request, requests, answers, news, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        os.waitpid(between, 0)
        if not said.isdigit():
            raise OSError(said.decode(errors="replace") or "the process that leaves the namespaces was ended")
        return int(said)


def _leave(request: dict[str, Any], requests: int, answers: int, news: socket.socket, writing: int) -> NoReturn:
    try:
        isolation.leave_namespaces()
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            _live(request, requests, answers, news)
        os.write(writing, str(pid).encode())
    except BaseException as error:
        os.write(writing, f"{error}".encode())
    os._exit(0)


def _live(request: dict[str, Any], requests: int, answers: int, news: socket.socket) -> NoReturn:
    """A fork's whole life."""
    try:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            python = number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
            if not python and signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if request["namespaces"]:
            name = os.readlink("/proc/self")
            isolation.own_files()
        else:
            name = str(os.getpid())
            _become(request["user"])
            isolation.prctl(isolation.PR_SET_PDEATHSIG, signal.SIGKILL)
            for variable in ("HOME", "TMPDIR", "TRITON_HOME"):
                os.environ[variable] = request["scratch"]
            os.environ["TRITON_CACHE_DIR"] = os.path.join(request["scratch"], "triton-cache")
            os.chdir(request["scratch"])
        if request["namespaces"]:
            isolation.without_privileges()
        _keep_only(requests, answers, news.detach())
        news = socket.socket(fileno=NEWS)
        isolation.bounded()
        random.seed(0)
        _tell(news, f"up {name}")
        news.close()
        with os.fdopen(ANSWERS, "wb") as out, os.fdopen(REQUESTS, "rb") as incoming:
            worker.serve(incoming, out, request["operations"])
    except BaseException as error:
        _tell(news, f"failed {type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def _become(user: list[int] | None) -> None:
    """Another user, when we are root and one is named."""
    if user:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])


def _keep_only(*descriptors: int) -> None:
    """Moves these descriptors to 3, 4, ... and closes all others; standard input, output and errors go nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    wanted = (nowhere, nowhere, nowhere, *descriptors)
    above = max(wanted) + 1
    for number, descriptor in enumerate(wanted):
        os.dup2(descriptor, above + number)
    for number in range(len(wanted)):
        os.dup2(above + number, number, inheritable=number < 3)
    os.closerange(len(wanted), os.sysconf("SC_OPEN_MAX"))


def _tell(news: socket.socket, text: str) -> None:
    try:
        news.send(text[:4000].encode(errors="replace"))
    except OSError:
        pass  # nobody listens any more


def main(arguments: list[str]) -> None:
    """Imports, then serves."""
    gc.disable()  # imports allocate much and free little
    control = socket.socket(fileno=int(arguments[0]))
    for name in arguments[1:]:
        importlib.import_module(name)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(0)  # its numbers begin alike in each fork
    threads = len(os.listdir("/proc/self/task"))
    isolation.prctl(isolation.PR_SET_CHILD_SUBREAPER, 1)
    isolation.prctl(isolation.PR_SET_DUMPABLE, 0)
    gc.freeze()
    gc.set_threshold(ALLOCATED)
    gc.enable()
    unable = f"importing started {threads - 1} threads, and a process with threads cannot be forked safely"
    Parent(control, unable if threads > 1 else None).serve()
