"""Sandboxes that are already up: Triton (and for the interpreter torch) imported, waiting for a student's module.

Starting one takes seconds, most of them imports; handing one out takes none. Each serves one module and is then gone.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from grader.sandbox import Sandbox, SandboxDied, SandboxTimeout
from grader.sandboxed.wire import WireError

PREPARE_SECONDS = 60.0
MODULES = {False: ["student", "compiling"], True: ["student", "interpreting"]}
"""What a sandbox imports, by whether it interprets."""


class Standby:
    """Keeps a few sandboxes of each kind ready. `start` has the signature of Sandbox, and takes its place."""

    def __init__(self, *, plain: int, interpreting: int, confined: bool | None = None) -> None:
        self._wanted = {False: plain, True: interpreting}
        self._confined = confined
        self._waiting: dict[bool, deque[Future[Sandbox]]] = {False: deque(), True: deque()}
        self._idle: list[Sandbox] = []
        self._busy: list[Sandbox] = []
        self._closed = False
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=plain + interpreting, thread_name_prefix="standby")

    def __enter__(self) -> Standby:
        self.fill()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end_busy()
        with self._lock:
            self._closed = True
            for futures in self._waiting.values():
                futures.clear()
            idle, self._idle = self._idle, []
        for sandbox in idle:
            sandbox.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for sandbox in idle:
            sandbox.close()

    def fill(self) -> None:
        """Begins to start what is missing; returns at once."""
        with self._lock:
            for interpret, waiting in self._waiting.items():
                for _ in range(self._wanted[interpret] - len(waiting)):
                    waiting.append(self._pool.submit(self._prepared, interpret))

    def _prepared(self, interpret: bool) -> Sandbox:
        with self._lock:
            if self._closed:
                raise SandboxDied("the session is over")
            sandbox = Sandbox(interpret=interpret, confined=self._confined)
            self._idle.append(sandbox)
        sandbox.ask({"op": "prepare", "modules": MODULES[interpret]}, timeout=PREPARE_SECONDS)
        return sandbox

    def start(self, *, interpret: bool = False, confined: bool | None = None) -> Sandbox:
        """A sandbox of that kind: one that waits, one that is about to, or else a new one."""
        with self._lock:
            waiting = self._waiting[interpret].popleft() if self._waiting[interpret] else None
        if waiting is not None:
            try:
                sandbox = waiting.result()
            except (SandboxDied, SandboxTimeout, WireError, OSError):
                return self.fresh(interpret=interpret, confined=confined)
            with self._lock:
                if sandbox in self._idle:
                    self._idle.remove(sandbox)
                self._busy.append(sandbox)
            return sandbox
        return self.fresh(interpret=interpret, confined=confined)

    def fresh(self, *, interpret: bool = False, confined: bool | None = None) -> Sandbox:
        """A new sandbox, for work that can wait while the others stay ready for what cannot."""
        sandbox = Sandbox(interpret=interpret, confined=confined)
        with self._lock:
            self._busy = [sandbox, *(other for other in self._busy if not other.ended)]
        return sandbox

    def end_busy(self) -> None:
        """Ends every sandbox handed out so far; who waits for one of them gets SandboxDied."""
        with self._lock:
            busy, self._busy = self._busy, []
        for sandbox in busy:
            sandbox.kill()
