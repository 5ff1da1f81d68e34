"""What a kernel author wants to know about a binary, read from its PTX and resource use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grader.model import BuildFacts

MatrixInstruction = Literal["wgmma", "mma.sync", "tcgen05", "none"]


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of one SM. Source: CUDA C++ Programming Guide, table of technical specifications per compute capability."""

    shared_bytes: int
    shared_bytes_per_program: int
    warps: int
    programs: int
    registers: int = 65536


MULTIPROCESSORS = {
    80: Multiprocessor(164 << 10, 163 << 10, 64, 32),
    86: Multiprocessor(100 << 10, 99 << 10, 48, 16),
    87: Multiprocessor(164 << 10, 163 << 10, 48, 16),
    89: Multiprocessor(100 << 10, 99 << 10, 48, 24),
    90: Multiprocessor(228 << 10, 227 << 10, 64, 32),
    100: Multiprocessor(228 << 10, 227 << 10, 64, 32),
    103: Multiprocessor(228 << 10, 227 << 10, 64, 32),
    120: Multiprocessor(100 << 10, 99 << 10, 48, 24),
    121: Multiprocessor(100 << 10, 99 << 10, 48, 24),
}


def multiprocessor(capability: int) -> Multiprocessor:
    """The limits for a compute capability (90 for 9.0); for an unknown one, those of the nearest older."""
    known = [number for number in MULTIPROCESSORS if number <= capability]
    return MULTIPROCESSORS[max(known, default=80)]


def facts(
    ptx: str, *, registers: int, local_bytes: int, shared_bytes: int, num_warps: int, capability: int
) -> BuildFacts:
    """Reads PTX for matrix instructions and load widths, and works out how many programs fit on an SM."""
    limits = multiprocessor(capability)
    matrix, int8 = _matrix_instruction(ptx)
    by_registers = limits.registers // max(1, _rounded(max(registers, 24), 8) * 32 * num_warps)
    by_shared = limits.shared_bytes // (shared_bytes + 1024)
    programs = max(0, min(limits.programs, limits.warps // num_warps, by_registers, by_shared))
    return BuildFacts(
        registers=registers,
        spill_bytes=local_bytes,
        shared_bytes=shared_bytes,
        matrix_instruction=matrix,
        int8_matrix=int8,
        widest_load_bytes=_widest_load(ptx),
        programs_per_sm=programs,
        warps_per_sm=programs * num_warps,
    )


def _rounded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _matrix_instruction(ptx: str) -> tuple[MatrixInstruction, bool]:
    kinds: tuple[tuple[MatrixInstruction, str], ...] = (
        ("wgmma", r"wgmma\.mma_async\S*"),
        ("tcgen05", r"tcgen05\.mma\S*"),
        ("mma.sync", r"\bmma\.sync\S*"),
    )
    for kind, pattern in kinds:
        found = re.findall(pattern, ptx)
        if found:
            return kind, any(re.search(r"\.(s8|u8|kind::i8)", instruction) for instruction in found)
    return "none", False


def _widest_load(ptx: str) -> int:
    """Bytes of the widest access to global memory by one thread; bulk tensor copies count as 16."""
    widest = 0
    for vector, bits in re.findall(r"ld\.global\S*?(?:\.v([248]))?\.[bsuf](\d+)", ptx):
        widest = max(widest, int(vector or 1) * int(bits) // 8)
    for size in re.findall(r"cp\.async\.c[ag]\.shared\.global[^;]*?,\s*(?:0x)?([0-9a-f]+)\s*[,;]", ptx):
        widest = max(widest, min(16, int(size, 16)))
    if "cp.async.bulk" in ptx:
        widest = max(widest, 16)
    return widest
