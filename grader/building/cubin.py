"""Whether a cubin is one kernel and nothing else: no memory of its own, no second entry, no call out of itself.

A kernel that owns device memory can keep a result from one launch to the next, where nobody looks. Triton makes none
of what is refused here for the code of these labs. What it does make, for sm_80 to sm_120 in versions 3.6 and 3.7, is
the list of what is allowed: code, arguments and literals of the one entry, and shared memory. Anything else that would
be loaded onto a GPU is refused, whatever its name.

One thing may stay: Triton 3.6 leaves a string of libdevice's in global memory, 11 bytes that no code of its own reads. A
kernel that names it has room for a count, not for a result; what a count is worth is for the clock to see to.

Format: ELF-64, little-endian (System V ABI, chapter 4); names of NVIDIA's sections as in the CUDA binary utilities.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
CUDA = 190
ALLOCATED = 0x2
SYMBOL_TABLE, NO_BITS = 2, 8
FUNCTION = 2
ENTRY = 0x10
"""st_other of a symbol that can be launched."""

OF_THE_ENTRY = (".text.{}", ".nv.constant0.{}", ".nv.constant2.{}", ".nv.shared.{}")
"""Sections on the GPU, by entry: code, arguments (bank 0), literals that the compiler placed (bank 2), shared memory."""

OF_THE_DRIVER = (".nv.shared.reserved.", ".nv.merc.nv.shared.reserved.")
"""What the driver reserves of shared memory."""

RESERVED = ".nv.reservedSmem"
LEFT_OVER = (".nv.global.init", b"__CUDA_FTZ\0")
"""The string by which libdevice asks how the compiler treats denormal numbers; answered at compile time."""

ADDRESSES = ".nv.constant4"
"""Where code finds the addresses of global memory."""

MEMORY = (".nv.global", ".nv.constant3", ".nv.merc.nv.global", ".nv.merc.nv.constant.user")
UNDEFINED, COMMON = 0, 0xFFF2
CALLS = {
    "vprintf": "prints (tl.device_print)",
    "__assertfail": "asserts on the device (tl.device_assert)",
    "malloc": "allocates device memory (malloc)",
}


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int


class _Malformed(Exception):
    """The bytes are no ELF file that this module can read."""


def fault(cubin: bytes, entry: str) -> str | None:
    """Why a cubin may not be loaded, as one sentence that begins with what the kernel does; None when it may."""
    try:
        sections = _sections(cubin)
        symbols = [
            symbol for section in sections if section.kind == SYMBOL_TABLE for symbol in _symbols(section, sections)
        ]
    except (_Malformed, struct.error, UnicodeDecodeError):
        return "the machine code is no cubin that can be read; compile it again with a Triton version that is supported"
    entries = sorted(name for name, _, other in symbols if other is not None and other & ENTRY)
    if call := _call_outside(symbols):
        return call
    if entries != [entry]:
        return f"the machine code has the entries {', '.join(entries) or 'none'}; expected {entry} alone"
    return _own_memory(sections, entry)


def _call_outside(symbols: list[tuple[str, int, int | None]]) -> str | None:
    outside = {name for name, place, _ in symbols if place in (UNDEFINED, COMMON) and name}
    called = [name for name in sorted(outside) if not name.startswith(RESERVED)]
    if not called:
        return None
    does = CALLS.get(called[0], f"calls {called[0]}, which is not part of it")
    return f"the kernel {does}; a graded kernel calls nothing outside itself: remove the call before you hand in"


def _own_memory(sections: list[_Section], entry: str) -> str | None:
    harmless = (ADDRESSES, LEFT_OVER[0]) if _is_left_over(sections) else ()
    suspects = [section for section in sections if section.name not in harmless]
    memory = [section.name for section in suspects if section.name.startswith(MEMORY)]
    beside = [section.name for section in suspects if section.flags & ALLOCATED and not _allowed(section.name, entry)]
    if not memory and not beside:
        return None
    return (
        f"the kernel has device memory of its own ({(memory or beside)[0]}); expected nothing that outlives a launch: "
        "leave .global and .const variables out of inline assembly, and functions that need tables (sin, cos, pow)"
    )


def _is_left_over(sections: list[_Section]) -> bool:
    """Whether all global memory is libdevice's string."""
    return [(one.name, one.data) for one in sections if one.name.startswith(MEMORY)] == [LEFT_OVER]


def _allowed(name: str, entry: str) -> bool:
    return name in {pattern.format(entry) for pattern in OF_THE_ENTRY} or name.startswith(OF_THE_DRIVER)


def _sections(cubin: bytes) -> list[_Section]:
    identity, _, machine, _, _, _, offset, _, _, _, _, size, count, names = HEADER.unpack_from(cubin)
    if identity[:6] != b"\x7fELF\x02\x01" or machine != CUDA or size != SECTION.size or not names < count:
        raise _Malformed
    rows = [SECTION.unpack_from(cubin, offset + number * size) for number in range(count)]
    table = _content(cubin, rows[names])
    return [_Section(_text(table, row[0]), row[1], row[2], _content(cubin, row), row[6]) for row in rows]


def _content(cubin: bytes, row: tuple[int, ...]) -> bytes:
    """A section's bytes; none for one that only says how much room it wants (SHT_NOBITS and NVIDIA's like)."""
    kind, offset, size = row[1], row[4], row[5]
    if kind == NO_BITS:
        return b""
    if offset + size > len(cubin):
        raise _Malformed
    return cubin[offset : offset + size]


def _symbols(table: _Section, sections: list[_Section]) -> list[tuple[str, int, int | None]]:
    """(name, section number, st_other of a function or None) of each symbol."""
    if table.link >= len(sections) or len(table.data) % SYMBOL.size:
        raise _Malformed
    names = sections[table.link].data
    found = []
    for name, info, other, place, _, _ in SYMBOL.iter_unpack(table.data):
        found.append((_text(names, name), place, other if info & 0xF == FUNCTION else None))
    return found


def _text(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    if end < 0:
        raise _Malformed
    return table[start:end].decode()
