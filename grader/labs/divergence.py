"""One divergence: where the flow of a kernel's data first held something else than the lab says, and what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Divergence:
    """name: the mistake's class, as lab.mistakes has them. rank: its place in the order of the flow.

    line: of the student's module. caller: the line that calls the helper in which it is, when there is one such line.
    program, turn: of the first place where it showed; turn counts multiplications from 0.
    found: what was there, with its numbers; expected: what should have been; reason: the mistake in words, without
    numbers of the case, which may be said of hidden cases too. case: whose sizes were used, with values of the ledger's own.
    strides: whether a tensor is walked by other strides than its own there, so that its masks are not to blame.
    begins: whether a tile begins where none of Y does, so that what it covers besides says nothing more.
    """

    name: str
    rank: int
    line: int | None
    found: str
    expected: str
    reason: str
    program: int | None = None
    turn: int | None = None
    case: str = ""
    caller: int | None = None
    strides: bool = False
    begins: bool = False

    @property
    def astray(self) -> str:
        """Why the addresses of its line are wrong, where they are; else ""."""
        return "its strides are not the tensor's" if self.strides else "its tile begins in the wrong place" if self.begins else ""

    def text(self, place: str) -> str:
        """The sentence. place: the line in the student's words."""
        where = [place, f"in `{self.case}`"] if self.case else [place]
        if self.program is not None:
            where.append(f"program {self.program}")
        if self.turn is not None:
            where.append(f"turn {self.turn}")
        expected = f", expected {self.expected}" if self.expected else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{', '.join(where)}: {self.found}{expected}{reason}"


GRID, TILE, LOAD, ADVANCE, SCALE, CONVERT, WEIGHT, UNPACK, PAIR, LOOP, SUM, CAST, FACTOR, STORE = range(14)
"""The order of the flow, which is the order in which to fix things."""
