"""Whether a cubin is one kernel and nothing else: no memory of its own, no second entry, no call out of itself.

A kernel that owns device memory can keep a result from one launch to the next, where nobody looks. Triton makes none
of what is refused here for the code of these labs. What it does make, for sm_80 to sm_120 in versions 3.6 and 3.7, is
the list of what is allowed: code, arguments and literals of the one entry, and shared memory. Anything else that would
be loaded onto a GPU is refused, whatever its name.

One thing may stay: libdevice's functions (tl.sqrt, tl.rsqrt, pow) ask the compiler questions by strings, three in all, and
Triton 3.6 to 3.9 leave in global memory those that were asked: 40 bytes at most, which no code of its own reads once they are
answered. A kernel that names them has room for a count, not for a result; what a count is worth is for the clock to see to.
Tables that libdevice does read are refused like a student's own: a kernel could write to them. Only sin, cos and tan have one.

Local memory is a thread's own and not empty when a launch begins: what an earlier one left may be read there. So hidden cases are
launched in a process of their own (running/cuda.py), and how much a thread may have is limited, as shared memory is: the driver keeps as
much for every thread that a GPU can hold at once.

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
LEFT_OVER = ".nv.global.init"
QUESTIONS = frozenset((b"__CUDA_FTZ", b"__CUDA_PREC_SQRT", b"__CUDA_ARCH"))
"""What libdevice asks: whether denormal numbers become 0, whether square roots are exact, for which GPU; answered at compile time."""

ADDRESSES = ".nv.constant4"
"""Where code finds the addresses of global memory."""

COPIES = {".nv.merc.nv.global.init": LEFT_OVER, ".nv.merc.nv.constant.pic": ADDRESSES}
"""From sm_100 on a cubin holds its code in a second form as well, and these sections with it, byte for byte."""

TABLES = ("__cudart_i2opi", "__cudart_sin_cos")
"""How the names of libdevice's tables begin: digits of 2 / pi and coefficients, for sin, cos and tan."""

MEMORY = (".nv.global", ".nv.constant3", ".nv.merc.nv.global", ".nv.merc.nv.constant.user")
MAX_NAME = 4096
MOST_LOCAL_BYTES = 16 << 10
"""Of a thread. Of the tiles that were tried, the most that one needed was 7.3 KB (256 x 256 over four warps, sm_80)."""
INFO, SIZED, FRAME_SIZE, LEAST_STACK = ".nv.info", 0x04, 0x11, 0x12
"""Where a cubin says of each function how many bytes of local memory its frame has, and its calls."""
MOST_OVERLAP = 8
"""How many times a file's bytes its sections may hold together: some of sm_120 overlap, and many that do make much of little."""
UNDEFINED, COMMON = 0, 0xFFF2
CALLS = {
    "vprintf": "prints (tl.device_print)",
    "__assertfail": "asserts on the device (tl.device_assert)",
    "malloc": "allocates device memory (malloc)",
}

TENSOR_COPIES = "__cuda_syscall_cp_async_bulk_tensor_"
"""How the names of functions begin that Triton 3.6 calls for sm_120 where a kernel has a tensor descriptor."""


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
        return "the machine code is not a readable cubin; compile it again with a supported Triton version"
    entries = sorted(name for name, _, other in symbols if other is not None and other & ENTRY)
    if call := _call_outside(symbols):
        return call
    if entries != [entry]:
        return f"the machine code has the entries {', '.join(entries) or 'none'}; expected {entry} alone"
    own = _own_memory(sections, entry, sorted(name for name, _, _ in symbols if name.startswith(TABLES)))
    return own or local_fault(_local_bytes(sections))


def local_fault(local_bytes: int) -> str | None:
    """Why no thread may have so much local memory, or nothing."""
    if local_bytes <= MOST_LOCAL_BYTES:
        return None
    return (
        f"the kernel needs {local_bytes / 1024:.0f} KB of local memory per thread, expected at most {MOST_LOCAL_BYTES >> 10} KB; "
        "use smaller tiles or more warps, and no .local variables in inline assembly"
    )


def _local_bytes(sections: list[_Section]) -> int:
    """The most local memory that a function has, as `.nv.info` says: attributes of four bytes, or of as many as they say themselves."""
    most = 0
    for data in (section.data for section in sections if section.name == INFO):
        at = 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != SIZED:
                continue
            if attribute in (FRAME_SIZE, LEAST_STACK) and size >= 8:
                most = max(most, struct.unpack_from("<I", data, at + 4)[0])
            at += size
    return most


def _call_outside(symbols: list[tuple[str, int, int | None]]) -> str | None:
    outside = {name for name, place, _ in symbols if place in (UNDEFINED, COMMON) and name}
    called = [name for name in sorted(outside) if not name.startswith(RESERVED)]
    if not called:
        return None
    if called[0].startswith(TENSOR_COPIES):
        return "the kernel has a tensor descriptor, for which Triton 3.6 calls the driver on this GPU; install Triton 3.7 or use pointers"
    does = CALLS.get(called[0], f"calls {called[0]}, which is not part of it")
    return f"the kernel {does}; a graded kernel may call nothing outside itself: remove the call before you hand in"


def _own_memory(sections: list[_Section], entry: str, tables: list[str]) -> str | None:
    harmless = _left_over(sections)
    suspects = [section for section in sections if section.name not in harmless]
    memory = [section.name for section in suspects if section.name.startswith(MEMORY)]
    beside = [section.name for section in suspects if section.flags & ALLOCATED and not _allowed(section.name, entry)]
    if not memory and not beside:
        return None
    found = f"the kernel has device memory of its own ({(tables or memory or beside)[0]})"
    if tables:
        return f"{found}, a table that sin, cos and tan need; nothing may outlive a launch: leave these functions out"
    return f"{found}; nothing may outlive a launch: leave .global and .const variables out of inline assembly"


def _left_over(sections: list[_Section]) -> frozenset[str]:
    """The sections that hold libdevice's questions, each of them once, and their addresses; none if there is more than that."""
    data = {section.name: section.data for section in sections}
    memory = [section.name for section in sections if section.name.startswith(MEMORY)]
    copies = {name for name, original in COPIES.items() if name in data and data[name] == data.get(original)}
    *asked, rest = data.get(LEFT_OVER, b"").split(b"\0")
    if sorted({*memory} - copies) != [LEFT_OVER] or len(memory) != len(set(memory)):
        return frozenset()
    if rest or not QUESTIONS.issuperset(asked) or len(asked) != len(set(asked)):
        return frozenset()
    return frozenset((LEFT_OVER, ADDRESSES, *copies))


def _allowed(name: str, entry: str) -> bool:
    return name in {pattern.format(entry) for pattern in OF_THE_ENTRY} or name.startswith(OF_THE_DRIVER)


def _sections(cubin: bytes) -> list[_Section]:
    identity, _, machine, _, _, _, offset, _, _, _, _, size, count, names = HEADER.unpack_from(cubin)
    if identity[:6] != b"\x7fELF\x02\x01" or machine != CUDA or size != SECTION.size or not names < count:
        raise _Malformed
    rows = [SECTION.unpack_from(cubin, offset + number * size) for number in range(count)]
    if sum(row[5] for row in rows if row[1] != NO_BITS) > MOST_OVERLAP * len(cubin):
        raise _Malformed
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
    end = table.find(b"\0", start, start + MAX_NAME)
    if end < 0:
        raise _Malformed
    return table[start:end].decode()
