"""A child process that answers requests one at a time, watched from outside: its death and its silence are exceptions.

The child ends with its parent, whatever ends the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Serve = Callable[..., None]
"""Runs in the child: takes its end of the pipe and the arguments, sends one greeting, then answers requests."""

END_SECONDS = 10.0
"""How long a killed process may take to be gone."""


class ProcessDied(Exception):
    """The child ended before it answered."""


class ProcessTimeout(Exception):
    """The child did not answer in time and was killed."""


class CannotStart(RuntimeError):
    """The child ended, or was silent, before it was ready."""


class Supervised:
    """One child process, started when it is first needed and again after every death; `stop` ends it.

    `method`: multiprocessing's start method. "fork", which is for callers without threads, is that of the first child alone: threads may
    run when it has died, and the next one is spawned.
    """

    def __init__(self, serve: Serve, *arguments: Any, start_seconds: float = 120.0, method: str = "spawn") -> None:
        self._serve, self._arguments, self._start_seconds = serve, arguments, start_seconds
        self._context: Any = multiprocessing.get_context(method)
        self._process: Any = None
        self._connection: Connection | None = None
        self._handle: int | None = None
        self._condemned = False
        self._lock = threading.Lock()
        self._ready = False

    @property
    def running(self) -> bool:
        """Whether a child was started that has not been found dead."""
        return self._process is not None

    def start(self) -> None:
        """Starts the child, if there is none, without waiting until it is ready. Raises CannotStart."""
        if self._process is not None:
            return
        self._connection, theirs = self._context.Pipe()
        process = self._context.Process(target=_run, args=(self._serve, theirs, *self._arguments), daemon=True)
        try:
            process.start()
            self._handle = os.pidfd_open(process.pid)
        except (OSError, EOFError) as error:  # the fork server died, or the machine has no process left
            self._connection.close()
            self._connection = None
            raise CannotStart(f"it could not be started ({error or type(error).__name__})") from None
        finally:
            theirs.close()
        if self._context.get_start_method() == "fork":
            self._context = multiprocessing.get_context("spawn")
        self._process = process
        self._ready = False
        with self._lock:
            if self._condemned:  # while it was starting
                self._signal()

    def kill(self) -> None:
        """Kills the child for good, from any thread: whoever waits for its answer gets ProcessDied, and so does who asks next.

        By its own handle: when the fork server has died, multiprocessing takes the child for dead, which it is not.
        """
        with self._lock:
            self._condemned = True
            self._signal()

    def _signal(self) -> None:
        if self._handle is not None:
            try:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop(self) -> None:
        """Kills the child and waits for its end; for the thread that asks."""
        with self._lock:
            self._signal()
        if self._process is not None:
            self._process.join()
        with self._lock:
            if self._handle is not None:
                select.select([self._handle], [], [], END_SECONDS)
                os.close(self._handle)
                self._handle = None
        if self._connection:
            self._connection.close()
        self._process = self._connection = None

    def ask(self, request: Any, seconds: float) -> Any:
        """The answer to a request, or its first one. Raises as `more` does, and CannotStart; the next call starts a new one."""
        if self._process is None:
            self.start()
        connection = self._connection
        assert connection is not None
        try:
            if not self._ready:
                if not connection.poll(self._start_seconds):
                    raise CannotStart(f"it was not ready within {self._start_seconds:.0f} s")
                connection.recv()
                self._ready = True
            connection.send(request)
        except (EOFError, OSError):
            started = self._ready
            self.stop()
            raise ProcessDied if started else CannotStart("it ended while starting") from None
        except CannotStart:
            self.stop()
            raise
        return self.more(seconds)

    def more(self, seconds: float) -> Any:
        """The next answer to the last request. Raises ProcessDied or ProcessTimeout, and the child is gone."""
        connection = self._connection
        assert connection is not None
        failure: type[Exception] = ProcessTimeout
        try:
            if connection.poll(seconds):
                return connection.recv()
        except (EOFError, OSError):
            failure = ProcessDied
        self.stop()
        raise failure


def _run(serve: Serve, connection: Connection, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(connection, *arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
