"""What a kernel author wants to know about a binary: what building/sandboxed/ptx.py read in its PTX, checked, and its resource use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from grader.building.sm_limits import sm_limits
from grader.model import BuildFacts, LoopFacts
from grader.sandbox.inside import wire
from grader.sandbox.inside.wire import WireError

MATRIX_INSTRUCTIONS = ("wgmma", "mma.sync", "tcgen05", "none")


def facts(header: Mapping[str, Any], capability: int) -> BuildFacts:
    """What a compiler's answer says of a binary, and how many programs fit on an SM. Raises WireError for numbers that are none."""
    registers, local_bytes, shared_bytes = (
        wire.integer(header[name], 0, name=name) for name in ("registers", "local_bytes", "shared_bytes")
    )
    num_warps = wire.integer(header["num_warps"], 1, 32, name="num_warps")
    limits, read = sm_limits(capability), header["ptx"]
    registers_per_thread = -(-max(registers, 24) // 8) * 8
    by_registers = limits.registers // (registers_per_thread * 32 * num_warps)
    by_shared = limits.shared_bytes // (shared_bytes + 1024)
    programs = min(limits.programs, limits.warps // num_warps, by_registers, by_shared)
    matrix = read["matrix_instruction"]
    if matrix not in MATRIX_INSTRUCTIONS:
        raise WireError("matrix_instruction is no instruction that is known")
    return BuildFacts(
        registers=registers,
        spill_bytes=local_bytes,
        shared_bytes=shared_bytes,
        matrix_instruction=matrix,
        int8_matrix=read["int8_matrix"] is True,
        widest_load_bytes=wire.integer(read["widest_load_bytes"], 0, 1 << 10, name="widest_load_bytes"),
        programs_per_sm=programs,
        warps_per_sm=programs * num_warps,
    )


def loop_facts(read: Mapping[str, int] | None) -> LoopFacts | None:
    """The iteration of the innermost loop that multiplies, None where there is none. Raises WireError for numbers that are none."""
    if read is None:
        return None
    return LoopFacts(**{field.name: wire.integer(read[field.name], 0, name=field.name) for field in fields(LoopFacts)})
