"""Which system calls code in a sandbox may not make: a seccomp filter, installed before a student's first byte.

What it closes, beside the namespaces:
- memory that counts in nobody's resident set: memfd, memfd_secret, SysV segments and queues, POSIX queues, shared
  mappings (each process has its own pages or none), io_uring and aio rings, pages held by sockets;
- limits of its own: the kernel kills whoever passes one, which looks like a death from outside, and that is no verdict;
- other processes: ptrace, process_vm_*, pidfd_getfd, kcmp, keyrings; and what two sandboxes could say to each other
  through a library file that both may read: locks, leases, inotify, and which of its pages are in memory (who may not ask has
  only the clock);
- the kernel's wide doors: new namespaces, mounts, bpf, perf, userfaultfd, io_uring, modules, sockets of every family
  (a network namespace does not hold AF_VSOCK, which in a virtual machine reaches its host).

A refused call fails with EPERM, so that honest code hears PermissionError; clone3 with ENOSYS, so that libc takes
clone, whose flags a filter can read. A call of another architecture (32 bit, x32) ends the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

NUMBERS = {
    "x86_64": {
        "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "chroot": 161, "clock_adjtime": 305,
        "clock_settime": 227, "clone": 56, "delete_module": 176, "fadvise64": 221, "fanotify_init": 300, "fcntl": 72,
        "finit_module": 313, "flock": 73, "inotify_init": 253, "inotify_init1": 294,
        "init_module": 175, "io_setup": 206, "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320,
        "kexec_load": 246, "keyctl": 250, "lookup_dcookie": 212, "memfd_create": 319, "migrate_pages": 256,
        "mincore": 27, "mmap": 9,
        "modify_ldt": 154, "mount": 165, "move_pages": 279, "mq_open": 240, "msgget": 68, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "perf_event_open": 298, "personality": 135, "pivot_root": 155, "preadv2": 327, "prlimit64": 302,
        "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101, "quotactl": 179, "readahead": 187, "reboot": 169,
        "request_key": 249, "semget": 64, "setns": 308, "setrlimit": 160, "settimeofday": 164, "shmat": 30, "shmget": 29, "socket": 41,
        "socketpair": 53, "swapoff": 168, "swapon": 167, "syslog": 103, "umount2": 166, "unshare": 272,
        "userfaultfd": 323, "vhangup": 153, "vmsplice": 278,
    },
    "aarch64": {
        "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "chroot": 51, "clock_adjtime": 266,
        "clock_settime": 112, "clone": 220, "delete_module": 106, "fadvise64": 223, "fanotify_init": 262, "fcntl": 25,
        "finit_module": 273, "flock": 32, "inotify_init1": 26,
        "init_module": 105, "io_setup": 0, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219,
        "lookup_dcookie": 18, "memfd_create": 279, "migrate_pages": 238, "mincore": 232, "mmap": 222, "mount": 40, "move_pages": 239,
        "mq_open": 180, "msgget": 186, "name_to_handle_at": 264, "open_by_handle_at": 265, "perf_event_open": 241,
        "personality": 92, "pivot_root": 41, "preadv2": 286, "prlimit64": 261,
        "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117,
        "quotactl": 60, "readahead": 213, "reboot": 142, "request_key": 218, "semget": 190, "setns": 268, "setrlimit": 164,
        "settimeofday": 170, "shmat": 196, "shmget": 194, "socket": 198, "socketpair": 199, "swapoff": 225, "swapon": 224, "syslog": 116,
        "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58, "vmsplice": 75,
    },
}  # fmt: skip
EVERYWHERE = {
    "cachestat": 451, "clone3": 435, "fsconfig": 431, "fsmount": 432, "fsopen": 430, "fspick": 433, "io_uring_enter": 426,
    "io_uring_register": 427, "io_uring_setup": 425, "memfd_secret": 447, "mount_setattr": 442, "move_mount": 429,
    "open_tree": 428, "open_tree_attr": 467, "pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448,
    "quotactl_fd": 443,
}  # fmt: skip
"""System calls since Linux 5.1 have one number on every architecture."""

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
INSPECTED = ("clone", "clone3", "fcntl", "mmap", "prlimit64")
NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""

X32_BIT = 0x40000000
FILE_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
"""F_GETLK, F_SETLK, F_SETLKW, the same of open files, F_SETLEASE, F_GETLEASE, F_NOTIFY."""

MAP_KIND, MAP_SHARED, MAP_SHARED_VALIDATE = 0x0F, 1, 3

LOAD, JUMP_EQUAL, JUMP_ABOVE, JUMP_ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENTS = 0, 4, 16
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def refuse(libc: ctypes.CDLL) -> None:
    """Installs the filter for this process and all that it starts. Raises OSError where it cannot be had."""
    code = program(os.uname().machine)
    instructions = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(instructions)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    filled = Program(len(code), ctypes.addressof(buffer))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filled), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"no filter of system calls can be installed: {os.strerror(number)}")


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as classic BPF: (operation, jump if true, jump if false, operand). Raises OSError where it is unknown."""
    if machine not in NUMBERS:
        raise OSError(errno.ENOSYS, f"no filter of system calls is known for {machine}; expected x86_64 or aarch64")
    numbers = {**NUMBERS[machine], **EVERYWHERE}
    code = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
    ]
    if machine == "x86_64":
        code += [(JUMP_ABOVE, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    for name, number in sorted(numbers.items()):
        if name not in INSPECTED:
            code += [(JUMP_EQUAL, 0, 1, number), _refusal(errno.EPERM)]
    code += [(JUMP_EQUAL, 0, 1, numbers["clone3"]), _refusal(errno.ENOSYS)]
    code += [
        (JUMP_EQUAL, 0, 4, numbers["clone"]),
        (LOAD, 0, 0, AT_ARGUMENTS),
        (JUMP_ANY_BIT, 0, 1, NEW_NAMESPACES),
        _refusal(errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    code += [(JUMP_EQUAL, 0, 2 + 2 * len(FILE_LOCKS), numbers["fcntl"]), (LOAD, 0, 0, AT_ARGUMENTS + 8)]
    for command in FILE_LOCKS:
        code += [(JUMP_EQUAL, 0, 1, command), _refusal(errno.EPERM)]
    code += [(RETURN, 0, 0, ALLOW)]
    code += [
        (JUMP_EQUAL, 0, 6, numbers["prlimit64"]),  # asks for a limit where it brings none
        (LOAD, 0, 0, AT_ARGUMENTS + 2 * 8),
        (JUMP_EQUAL, 0, 2, 0),
        (LOAD, 0, 0, AT_ARGUMENTS + 2 * 8 + 4),
        (JUMP_EQUAL, 1, 0, 0),
        _refusal(errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    code += [
        (JUMP_EQUAL, 0, 5, numbers["mmap"]),
        (LOAD, 0, 0, AT_ARGUMENTS + 3 * 8),
        (AND, 0, 0, MAP_KIND),
        (JUMP_EQUAL, 1, 0, MAP_SHARED),
        (JUMP_EQUAL, 0, 1, MAP_SHARED_VALIDATE),
        _refusal(errno.EPERM),
    ]
    return [*code, (RETURN, 0, 0, ALLOW)]


def _refusal(number: int) -> tuple[int, int, int, int]:
    return RETURN, 0, 0, 0x00050000 | number
