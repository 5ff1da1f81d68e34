"""How a process of ours becomes one that may run a student's Python: what it can see, name, hold and use up.

`apart` gives it namespaces of its own: users, processes, mounts (private /tmp and /dev/shm, an empty /proc), IPC,
network, host name. So neither the warm parent nor a sibling has a name that it could use. `bound` sets the limits that
the kernel keeps itself, gives up every privilege, and installs the filter of system calls.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

from grader.sandbox.inside import places, system_calls

MEMORY_BYTES = 6 << 30
ADDRESS_SPACE_BYTES = 24 << 30
FILE_BYTES = 512 << 20
FILES = 16384
SHARED_MEMORY_BYTES = 16 << 20
CPU_SECONDS = 900
OPEN_FILES = 256
"""MEMORY_BYTES is what one process may hold; what a family holds together is watched from outside. Files are counted
by their file system, which is bounded too, in bytes and in number."""

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 1, 4, 24, 28
PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 36, 47, 4
NO_ROOT_NO_FIXUP_LOCKED = 0b101111
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    """prctl(2). Raises OSError."""
    _checked("prctl", libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(third), 0, 0))


def leave_namespaces() -> None:
    """Gives this process new namespaces; the next fork is process 1 of the new one. Raises OSError where forbidden."""
    user, group = os.getuid(), os.getgid()
    spaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP
    _checked("unshare", libc.unshare(spaces))
    prctl(PR_SET_DUMPABLE, 1)  # else its own /proc entries belong to root, and no user can be mapped
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def own_files() -> None:
    """Empty file systems of its own, of bounded size, where anything can be written; nothing of /proc, no terminals."""
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    hidden = MS_NOSUID | MS_NODEV
    opened = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) for path in _packages_in_private()]
    _mount("tmpfs", "/tmp", "tmpfs", hidden, f"mode=755,size={FILE_BYTES},nr_inodes={FILES}")
    _mount("tmpfs", "/dev/shm", "tmpfs", hidden, f"mode=755,size={SHARED_MEMORY_BYTES},nr_inodes=1024")
    for folder in ("/proc", "/dev/pts"):
        _mount("tmpfs", folder, "tmpfs", hidden | MS_NOEXEC | MS_RDONLY, "mode=555,size=4096,nr_inodes=1")
    around = {top for path, _ in opened if (top := places.enclosing(path))}
    for top in around:
        os.mkdir(top)
        _mount("tmpfs", top, "tmpfs", hidden, "mode=755")
    for path, folder in opened:
        os.makedirs(path, exist_ok=True)
        os.fchdir(folder)
        _mount(".", path, None, MS_BIND | MS_REC)
        os.close(folder)
    for top in around:
        _mount(None, top, None, hidden | MS_REMOUNT | MS_BIND | MS_RDONLY)
    os.mkdir(places.SCRATCH)
    os.chdir(places.SCRATCH)


def _packages_in_private() -> list[str]:
    """This Python and its packages, as far as they lie in there: mounted read-only, and read from long after the fork."""
    found: list[str] = []
    for path in sorted({sys.prefix, sys.base_prefix, *filter(os.path.isdir, sys.path)}):
        inside = path.startswith(tuple(f"{private}/" for private in places.PRIVATE))
        if inside and not any(path.startswith(f"{root}/") for root in found):
            found.append(path)
    return found


def without_privileges() -> None:
    """Gives up every capability, for good: here and in whatever this process executes."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0):
            break
    prctl(PR_SET_SECUREBITS, NO_ROOT_NO_FIXUP_LOCKED)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _checked("capset", libc.capset(header, (ctypes.c_uint32 * 6)()))


def bounded() -> None:
    """The limits that the kernel keeps, and the filter of system calls. Raises OSError where there is no filter."""
    for what, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    prctl(PR_SET_DUMPABLE, 0)
    system_calls.refuse(libc)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _checked(f"mount {target}", libc.mount(*texts, flags, options.encode() if options else None))


def _checked(what: str, result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
