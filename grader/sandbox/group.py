"""Sandboxes that can be ended together: when what they work on is no longer wanted."""

from __future__ import annotations

import threading

from grader.sandbox.process import Sandbox


class Session:
    """`start` has the signature of Sandbox, and takes its place."""

    def __init__(self) -> None:
        self._started: list[Sandbox] = []
        self._lock = threading.Lock()

    def start(self, *, interpret: bool = False, confined: bool | None = None) -> Sandbox:
        """A new sandbox of this session."""
        sandbox = Sandbox(interpret=interpret, confined=confined)
        with self._lock:
            self._started = [sandbox, *(other for other in self._started if not other.ended)]
        return sandbox

    def end(self) -> None:
        """Ends every sandbox started so far; who waits for one of them gets SandboxDied."""
        with self._lock:
            started, self._started = self._started, []
        for sandbox in started:
            sandbox.kill()
