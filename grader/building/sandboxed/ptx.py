"""What a kernel's PTX says of it, as a few small numbers: no text of a student's leaves the sandbox for this.

`"..." * n` is a constant to Triton, so a hundred bytes of source become megabytes of inline PTX. One pass over the statements, each
cut to MAX_STATEMENT characters; what a pattern is applied to begins where the pattern begins, so that the work grows with the
length and not faster. Of a text that is longer than MAX_CHARACTERS, or not read after SECONDS, nothing is said. Comments are left out.

The loop whose iteration is counted is an innermost one: a branch back to a label that passes a matrix instruction, and no other such
branch. Of several, which run for different sizes, it is the longest, so that nothing is praised that another one does not do. PTX
is not yet machine code (a division is one instruction here and about ten there), but what a student changes can be read from it. Names
of instructions: PTX ISA, "Floating-Point Instructions", "Data Movement and Conversion Instructions" and "Warp-Level Matrix Instructions".
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MAX_CHARACTERS = 16 << 20
MAX_STATEMENT = 16 << 10
SECONDS = 5.0
CLOCK_EVERY = 1024
"""Statements between two checks of the time."""

COMMENT = re.compile(r"//|/\*")
LABEL = re.compile(r"\s*(\$\w+):")
BRANCH = re.compile(r"bra(?:\.uni)?\s+(\$\w+)\s*\Z")
GUARD = re.compile(r"[\s{]*(?:@!?%\w+\s+)?")
NAME = re.compile(r"[a-z]\w*(?:\.[\w:]+)*")
MATRIX = re.compile(r"(wgmma\.mma_async|mma\.sync)\b")
SHAPE = re.compile(r"m(\d{1,4})n(\d{1,4})k(\d{1,4})\Z")
REGISTER = re.compile(r"%\w+")
FLOAT = r"(?:f16x2|bf16x2|f16|bf16|f32|f64)"
FLOAT_WORK = re.compile(rf"(?:add|sub|mul|fma|div|rcp|max|min|neg|abs|ex2|lg2|sqrt|rsqrt|cvt)\b.*\.{FLOAT}\Z")
DIVISION = re.compile(r"(?:div|rcp)\..*f32\Z")
MULTIPLICATION = re.compile(rf"mul\.(?:\w+\.)*{FLOAT}\Z")
TO_FLOAT = re.compile(rf"cvt\.(?:\w+\.)*{FLOAT}\.[su]\d+\Z")
TO_INTEGER = re.compile(rf"cvt\.(?:(?:\w+\.)*[su]\d+\.{FLOAT}|r[nzmp]i\.(?:\w+\.)*{FLOAT}\.{FLOAT})\Z")
SHARED_STORE = re.compile(r"st\.shared(?:::\w+)?(?:\.v([248]))?\.[bsuf](\d{1,3})\Z")
MATRIX_STORE = re.compile(r"stmatrix\.[\w.:]*\.x([124])\b")
ASYNC_COPY = re.compile(r"cp\.async\.(?:c[ag]\.|bulk\.tensor|bulk\.shared)")
COPY_TO_SHARED = re.compile(r"cp\.async\.c[ag]\.shared\.global")
COPIED_BYTES = re.compile(r"\s*(?:0x)?([0-9a-f]{1,4})\s*\Z")
ELEMENT = re.compile(r"[bsuf](\d{1,3})\Z")
MOST_BYTES = 16
"""What one thread can move at once by a copy to shared memory."""
WARPS_OF_A_GROUP = 4
MATRIX_KINDS = (("wgmma", "wgmma."), ("tcgen05", "tcgen05."), ("mma.sync", "mma."))


class _Unread(Exception):
    """The text is too long, or took too long."""


def read(ptx: str, num_warps: int, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """matrix_instruction ("none" without one), int8_matrix, widest_load_bytes, and loop: None or what LoopFacts holds."""
    try:
        return _Reader(ptx, clock).answer(num_warps)
    except _Unread:
        return {"matrix_instruction": "none", "int8_matrix": False, "widest_load_bytes": 0, "loop": None}


class _Reader:
    """names: the instruction of each statement, "" for a label. sums: registers that matrix instructions write, by statement.
    converted: the last register of each conversion to a float, by statement. matrix: statements that multiply. tensor_memory: instructions
    that multiply there. ways_back: pairs (label's statement, branch's statement). widest: bytes of the widest load."""

    def __init__(self, ptx: str, clock: Callable[[], float]) -> None:
        self.names: list[str] = []
        self.sums: dict[int, list[str]] = {}
        self.converted: dict[int, str] = {}
        self.matrix: list[int] = []
        self.tensor_memory: list[str] = []
        self.ways_back: list[tuple[int, int]] = []
        self.widest = 0
        labels: dict[str, int] = {}
        for text in _statements(ptx, clock):
            self._add(text, labels)

    def _add(self, text: str, labels: dict[str, int]) -> None:
        number = len(self.names)
        if label := LABEL.match(text):
            labels[label[1]] = number
            self.names.append("")
            return
        begin = GUARD.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
        found = NAME.match(text, begin)
        name = found[0] if found else ""
        self.names.append(name)
        if not name:
            return
        if name.startswith("bra") and (branch := BRANCH.match(text, begin)) and branch[1] in labels:
            self.ways_back.append((labels[branch[1]], number))
        elif name.startswith("tcgen05.mma"):
            self.tensor_memory.append(name)
        elif MATRIX.match(name):
            self.matrix.append(number)
            self.sums[number] = REGISTER.findall(text[begin:].partition("{")[2].partition("}")[0])
        elif TO_FLOAT.match(name):
            registers = REGISTER.findall(text, begin)
            self.converted[number] = registers[-1] if registers else ""
        self.widest = max(self.widest, _loaded(name, text))

    def answer(self, num_warps: int) -> dict[str, Any]:
        matrix = [*(self.names[number] for number in self.matrix), *self.tensor_memory]
        kind, begin = next(
            (kind for kind in MATRIX_KINDS if any(name.startswith(kind[1]) for name in matrix)), ("none", "-")
        )
        int8 = any(
            part in ("s8", "u8", "kind::i8") for name in matrix if name.startswith(begin) for part in name.split(".")
        )
        return {
            "matrix_instruction": kind,
            "int8_matrix": int8,
            "widest_load_bytes": self.widest,
            "loop": self._loop_facts(num_warps),
        }

    def _loop(self) -> tuple[int, int] | None:
        """First and last statement of the longest innermost loop around a matrix instruction."""
        innermost, latest_start = [], -1
        for first, last in self.ways_back:  # in the order of `last`, so each loop comes after those inside it
            if bisect_left(self.matrix, first) == bisect_right(self.matrix, last):
                continue
            if first > latest_start:
                innermost.append((first, last))
            latest_start = max(latest_start, first)
        return max(innermost, key=lambda span: span[1] - span[0], default=None)

    def _loop_facts(self, num_warps: int) -> dict[str, int] | None:
        span = self._loop()
        if span is None:
            return None
        first, last = span
        inside, outside = self.names[first : last + 1], self.names[:first] + self.names[last + 1 :]
        sums = {
            register for number, registers in self.sums.items() if first <= number <= last for register in registers
        }
        return {
            "divisions": _count(DIVISION, inside),
            "multiplications": _count(MULTIPLICATION, inside),
            "accumulator_to_float": sum(
                register in sums for number, register in self.converted.items() if first <= number <= last
            ),
            "int_to_float": _count(TO_FLOAT, inside),
            "int_to_float_outside": _count(TO_FLOAT, outside),
            "float_to_int": _count(TO_INTEGER, inside),
            "float_instructions": sum(bool(FLOAT_WORK.match(name) or TO_INTEGER.match(name)) for name in inside),
            "shared_store_bytes": sum(map(_stored, inside)),
            "async_copies": _count(ASYNC_COPY, inside),
            "products": sum(_products(name, num_warps) for name in inside),
        }


def _statements(ptx: str, clock: Callable[[], float]) -> Iterator[str]:
    """Statements and labels, without comments. Raises _Unread."""
    if len(ptx) > MAX_CHARACTERS:
        raise _Unread
    end, count = clock() + SECONDS, 0
    for line in _without_comments(ptx):
        for part in line.split(";"):
            count += 1
            if count % CLOCK_EVERY == 0 and clock() > end:
                raise _Unread
            text = part[:MAX_STATEMENT].strip()
            if label := LABEL.match(text):
                yield label[0]
                text = text[label.end() :]
            if text:
                yield text


def _without_comments(ptx: str) -> Iterator[str]:
    """The lines, each cut off where a comment begins, and those inside of /* and */ left out."""
    place = 0
    while place < len(ptx):
        found = COMMENT.search(ptx, place)
        start = found.start() if found else len(ptx)
        yield from ptx[place:start].split("\n")
        if found is None:
            return
        closed = ptx.find("*/", start + 2) if found[0] == "/*" else ptx.find("\n", start)
        if closed < 0:
            return
        place = closed + (2 if found[0] == "/*" else 0)


def _count(pattern: re.Pattern[str], names: Sequence[str]) -> int:
    return sum(bool(pattern.match(name)) for name in names)


def _loaded(name: str, text: str) -> int:
    """Bytes that one thread reads of global memory by a statement; a bulk copy of a tensor counts as 16."""
    if name.startswith("ld.global"):
        parts = name.split(".")
        vector = next((int(part[1]) for part in parts if part in ("v2", "v4", "v8")), 1)
        element = ELEMENT.match(parts[-1])
        return vector * int(element[1]) // 8 if element else 0
    if COPY_TO_SHARED.match(name):
        sizes = (COPIED_BYTES.match(operand) for operand in text.split(",")[1:])
        return min(MOST_BYTES, next((int(size[1], 16) for size in sizes if size), 0))
    return MOST_BYTES if name.startswith("cp.async.bulk") else 0


def _stored(name: str) -> int:
    """Bytes that one thread writes to shared memory; stmatrix writes 4 for each of its matrices."""
    if found := SHARED_STORE.match(name):
        return int(found[1] or 1) * int(found[2]) // 8
    found = MATRIX_STORE.match(name)
    return 4 * int(found[1]) if found else 0


def _products(name: str, num_warps: int) -> int:
    """Multiply-adds of one instruction in all warps that execute it; wgmma is one of four warps together."""
    found = MATRIX.match(name)
    shape = next((shape for part in name.split(".") if (shape := SHAPE.match(part))), None) if found else None
    if found is None or shape is None:
        return 0
    groups = num_warps // WARPS_OF_A_GROUP if found[1].startswith("wgmma") else num_warps
    return int(shape[1]) * int(shape[2]) * int(shape[3]) * groups
