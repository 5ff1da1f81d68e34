"""A child process that answers requests one at a time, watched from outside: its death and its silence are exceptions.

The child ends with its parent, whatever ends the parent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Serve = Callable[..., None]
"""Runs in the child: takes its end of the pipe and the arguments, sends one greeting, then answers requests."""


class ProcessDied(Exception):
    """The child ended before it answered."""


class ProcessTimeout(Exception):
    """The child did not answer in time and was killed."""


class CannotStart(RuntimeError):
    """The child ended, or was silent, before it was ready."""


class Supervised:
    """One child process, started when it is first needed and again after every death; `stop` ends it.

    `method`: multiprocessing's start method, "spawn" or "forkserver".
    """

    def __init__(self, serve: Serve, *arguments: Any, start_seconds: float = 120.0, method: str = "spawn") -> None:
        self._serve, self._arguments, self._start_seconds = serve, arguments, start_seconds
        self._context: Any = multiprocessing.get_context(method)
        self._process: Any = None
        self._connection: Connection | None = None
        self._ready = False

    def start(self) -> None:
        """Starts the child without waiting until it is ready."""
        self._connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_run, args=(self._serve, theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._ready = False

    def kill(self) -> None:
        """Kills the child, from any thread: whoever waits for its answer gets ProcessDied."""
        process = self._process
        if process is not None and process.is_alive():
            process.kill()

    def stop(self) -> None:
        """Kills the child and waits for its end; for the thread that asks."""
        if self._process is not None:
            if self._process.is_alive():
                self._process.kill()
            self._process.join()
        if self._connection:
            self._connection.close()
        self._process = self._connection = None

    def ask(self, request: Any, seconds: float) -> Any:
        """The answer to a request, or its first one. Raises as `more` does, and CannotStart; the next call starts anew."""
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
        try:
            if not connection.poll(seconds):
                raise ProcessTimeout
            return connection.recv()
        except (EOFError, OSError):
            self.stop()
            raise ProcessDied from None
        except ProcessTimeout:
            self.stop()
            raise


def _run(serve: Serve, connection: Connection, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(connection, *arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
