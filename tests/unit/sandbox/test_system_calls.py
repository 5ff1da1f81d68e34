"""The filter of system calls, decision by decision, for both architectures: run here by a small BPF machine."""

from __future__ import annotations

import errno
import struct

import pytest

from grader.sandbox.inside import system_calls
from grader.sandbox.inside.system_calls import ALLOW, AUDIT_ARCH, EVERYWHERE, INSPECTED, KILL, NUMBERS, program

MACHINES = sorted(NUMBERS)
NEEDED = {
    "x86_64": {"read": 0, "write": 1, "close": 3, "brk": 12, "pipe2": 293, "fork": 57, "vfork": 58, "execve": 59,
               "wait4": 61, "openat": 257, "futex": 202, "exit_group": 231, "munmap": 11, "mprotect": 10},
    "aarch64": {"read": 63, "write": 64, "close": 57, "brk": 214, "pipe2": 59, "execve": 221, "wait4": 260,
                "openat": 56, "futex": 98, "exit_group": 94, "munmap": 215, "mprotect": 226},
}
"""What Python, Triton and ptxas cannot do without."""

REFUSED = 0x00050000


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter returns for a call."""
    data = struct.pack(
        "<iIQ6Q", number, architecture or AUDIT_ARCH[machine], 0, *(*arguments, *[0] * (6 - len(arguments)))
    )
    accumulator, at = 0, 0
    code = program(machine)
    while True:
        operation, yes, no, operand = code[at]
        at += 1
        if operation == system_calls.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == system_calls.AND:
            accumulator &= operand
        elif operation == system_calls.RETURN:
            return operand
        else:
            holds = {
                system_calls.JUMP_EQUAL: accumulator == operand,
                system_calls.JUMP_ABOVE: accumulator >= operand,
                system_calls.JUMP_ANY_BIT: bool(accumulator & operand),
            }[operation]
            at += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
def test_every_named_call_is_refused_and_every_needed_one_allowed(machine):
    for name, number in {**NUMBERS[machine], **EVERYWHERE}.items():
        if name not in INSPECTED:
            assert decide(machine, number) == REFUSED | errno.EPERM, name
    for name, number in NEEDED[machine].items():
        assert decide(machine, number) == ALLOW, name


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_else_is_refused(machine):
    refused = {number for number in range(600) if decide(machine, number) != ALLOW}
    assert refused == set({**NUMBERS[machine], **EVERYWHERE}.values()) - {
        NUMBERS[machine][name] for name in ("clone", "fcntl", "mmap", "prlimit64")
    }


PROCESSES = {"pthread_create": 0x3D0F00, "fork": 0x01200011, "posix_spawn": 0x4111}
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80)
PRIVATE, SHARED = (0x22, 0x02, 0x20022), (0x01, 0x21, 0x03, 0x40001, 0x8001)
EPERM = REFUSED | errno.EPERM
LOOKED_AT = [
    *(("clone", (flags,), ALLOW) for flags in PROCESSES.values()),
    *(("clone", (flag | 0x11,), EPERM) for flag in NAMESPACES),
    ("clone3", (), REFUSED | errno.ENOSYS),
    *(("mmap", (0, 4096, 3, flags, 2**64 - 1, 0), ALLOW if flags in PRIVATE else EPERM) for flags in (*PRIVATE, *SHARED)),
    ("prlimit64", (0, 0, 0, 0x7F0000000000), ALLOW),
    *(("prlimit64", (0, 0, 1 << bit, 0), EPERM) for bit in range(64)),
    *(("fcntl", (3, command), EPERM if command in system_calls.FILE_LOCKS else ALLOW) for command in range(1100)),
]
"""Threads and processes but no namespaces; mappings that are private; limits that are asked for, not set; descriptors that are copied
and asked, and not locked."""


@pytest.mark.parametrize("machine", MACHINES)
def test_some_calls_are_decided_by_their_arguments(machine):
    for name, arguments, expected in LOOKED_AT:
        assert decide(machine, {**NUMBERS[machine], **EVERYWHERE}[name], *arguments) == expected, (name, arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_process(machine):
    assert decide(machine, 0, architecture=0x40000003) == KILL
    other = next(AUDIT_ARCH[name] for name in MACHINES if name != machine)
    assert decide(machine, 0, architecture=other) == KILL


def test_x32_calls_end_the_process():
    assert decide("x86_64", 0x40000000) == decide("x86_64", 0x40000000 + 101) == decide("x86_64", 2**31 - 1) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_jumps_stay_inside_the_program(machine):
    code = program(machine)
    assert len(code) < 4096
    assert code[-1][0] == system_calls.RETURN
    assert all(at + 1 + max(yes, no) < len(code) and max(yes, no) < 256 for at, (_, yes, no, _) in enumerate(code[:-1]))


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(OSError, match="no filter of system calls is known for riscv64"):
        program("riscv64")
