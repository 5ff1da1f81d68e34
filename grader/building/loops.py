"""What a kernel's loop costs: the instructions of one turn, counted in the PTX that Triton made.

The loop is an innermost one: a way back to a label that passes a matrix instruction, and no other such way. Of several,
which run for different sizes, it is the longest, so that nothing is praised that another one does not do. PTX is not yet
machine code (a division is one instruction here and about ten there), but what a student changes can be read from it. Names of
instructions: PTX ISA, "Floating-Point Instructions", "Data Movement and Conversion Instructions" and "Warp-Level Matrix Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.model import LoopFacts

LABEL = re.compile(r"^\s*(\$\w+):")
BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)\s*;")
INSTRUCTION = re.compile(r"^[\s{]*(?:@!?%\w+\s+)?([a-z]\w*(?:\.[\w:]+)*)")
MATRIX = re.compile(r"(wgmma\.mma_async|mma\.sync)\S*?\.m(\d+)n(\d+)k(\d+)")
RESULTS = re.compile(r"\{([^}]*)\}")
REGISTER = re.compile(r"%\w+")
FLOAT = r"(?:f16x2|bf16x2|f16|bf16|f32|f64)"
FLOAT_WORK = re.compile(rf"^(?:add|sub|mul|fma|div|rcp|max|min|neg|abs|ex2|lg2|sqrt|rsqrt|cvt)\b.*\.{FLOAT}$")
DIVISION = re.compile(r"^(?:div|rcp)\..*f32$")
MULTIPLICATION = re.compile(rf"^mul\.(?:\w+\.)*{FLOAT}$")
TO_FLOAT = re.compile(rf"^cvt\.(?:\w+\.)*{FLOAT}\.[su]\d+$")
TO_INTEGER = re.compile(rf"^cvt\.(?:(?:\w+\.)*[su]\d+\.{FLOAT}|r[nzmp]i\.(?:\w+\.)*{FLOAT}\.{FLOAT})$")
SHARED_STORE = re.compile(r"^st\.shared(?:::\w+)?(?:\.v([248]))?\.[bsuf](\d+)$")
MATRIX_STORE = re.compile(r"^stmatrix\.\S*?\.x([124])\b")
ASYNC_COPY = re.compile(r"^cp\.async\.(?:c[ag]\.|bulk\.tensor|bulk\.shared)")
WARPS_OF_A_GROUP = 4


def loop_facts(ptx: str, num_warps: int) -> LoopFacts | None:
    """Counts one turn of the innermost loop with a matrix instruction; None where there is no such loop."""
    lines = ptx.splitlines()
    span = _loop(lines)
    if span is None:
        return None
    turn = lines[span[0] : span[1] + 1]
    inside = [found[1] for line in turn if (found := INSTRUCTION.match(line))]
    outside = [found[1] for line in lines[: span[0]] + lines[span[1] + 1 :] if (found := INSTRUCTION.match(line))]
    return LoopFacts(
        divisions=_count(DIVISION, inside),
        multiplications=_count(MULTIPLICATION, inside),
        sums_to_float=_sums_to_float(turn),
        to_float_outside=_count(TO_FLOAT, outside),
        to_integer=_count(TO_INTEGER, inside),
        float_instructions=sum(bool(FLOAT_WORK.match(name) or TO_INTEGER.match(name)) for name in inside),
        shared_store_bytes=sum(map(_stored, inside)),
        async_copies=_count(ASYNC_COPY, inside),
        products=sum(_products(name, num_warps) for name in inside),
    )


def _count(pattern: re.Pattern[str], names: Sequence[str]) -> int:
    return sum(bool(pattern.match(name)) for name in names)


def _loop(lines: Sequence[str]) -> tuple[int, int] | None:
    """First and last line of the longest innermost loop around a matrix instruction."""
    labels: dict[str, int] = {}
    matrix: list[int] = []
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if label := LABEL.match(line):
            labels[label[1]] = number
        if MATRIX.search(line):
            matrix.append(number)
        if (branch := BRANCH.search(line)) and branch[1] in labels:
            loops.append((labels[branch[1]], number))
    around = [(first, last) for first, last in loops if any(first <= number <= last for number in matrix)]
    innermost = [(a, b) for a, b in around if not any((a, b) != (c, d) and a <= c and d <= b for c, d in around)]
    return max(innermost, key=lambda span: span[1] - span[0], default=None)


def _sums_to_float(lines: Sequence[str]) -> int:
    """Conversions of a register that a matrix instruction among these lines writes."""
    sums = {name for line in lines if MATRIX.search(line) and (found := RESULTS.search(line)) for name in REGISTER.findall(found[1])}
    converted = [line for line in lines if (found := INSTRUCTION.match(line)) and TO_FLOAT.match(found[1])]
    return sum(REGISTER.findall(line)[-1] in sums for line in converted)


def _stored(name: str) -> int:
    """Bytes that one thread writes to shared memory; stmatrix writes 4 for each of its matrices."""
    if found := SHARED_STORE.match(name):
        return int(found[1] or 1) * int(found[2]) // 8
    found = MATRIX_STORE.match(name)
    return 4 * int(found[1]) if found else 0


def _products(name: str, num_warps: int) -> int:
    """Multiply-adds of one instruction in all warps that execute it; wgmma is one of four warps together."""
    found = MATRIX.match(name)
    if found is None:
        return 0
    groups = num_warps // WARPS_OF_A_GROUP if found[1].startswith("wgmma") else num_warps
    return int(found[2]) * int(found[3]) * int(found[4]) * groups
