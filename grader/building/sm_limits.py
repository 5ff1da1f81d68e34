"""What one SM of a GPU has, by compute capability; and the sentence about a config that needs more shared memory than a program may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SMLimits:
    """Limits of one SM. Source: CUDA C++ Programming Guide, table of technical specifications per compute capability."""

    shared_bytes: int
    shared_bytes_per_program: int
    warps: int
    programs: int
    registers: int = 65536


SM_LIMITS = {
    80: SMLimits(164 << 10, 163 << 10, 64, 32),
    86: SMLimits(100 << 10, 99 << 10, 48, 16),
    87: SMLimits(164 << 10, 163 << 10, 48, 16),
    89: SMLimits(100 << 10, 99 << 10, 48, 24),
    90: SMLimits(228 << 10, 227 << 10, 64, 32),
    100: SMLimits(228 << 10, 227 << 10, 64, 32),
    103: SMLimits(228 << 10, 227 << 10, 64, 32),
    120: SMLimits(100 << 10, 99 << 10, 48, 24),
    121: SMLimits(100 << 10, 99 << 10, 48, 24),
}


def sm_limits(capability: int) -> SMLimits:
    """The limits for a compute capability (90 for 9.0); for an unknown one, those of the nearest older."""
    known = [number for number in SM_LIMITS if number <= capability]
    return SM_LIMITS[max(known, default=80)]


def too_much_shared_memory(shared_bytes: int, capability: int) -> str:
    """What is said of a config whose programs need so much shared memory; "" where it fits."""
    limit = sm_limits(capability).shared_bytes_per_program
    if shared_bytes <= limit:
        return ""
    return (
        f"needs {shared_bytes / 1024:.0f} KB of shared memory, but a program may use only {limit // 1024} KB; "
        "use smaller tiles or fewer stages"
    )
