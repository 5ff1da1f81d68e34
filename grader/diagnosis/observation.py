"""An observation: where one column of the relation first deviates, what was found there and what should stand there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from grader.diagnosis.provenance import Array
from grader.model import place_in

COLUMNS = ("programs", "store", "rows", "k", "index", "count", "mask", "value", "sum", "precision", "scale")
"""In the order of the flow, which is the order in which to put things right."""
ABOUT = {
    "programs": "which program stores which tile of Y is wrong",
    "store": "the sums are stored to the wrong elements of Y",
    "rows": "the rows of an operand are not those of the tile of Y",
    "k": "the two operands do not meet at the same k",
    "index": "an operand is looked up with the wrong element of the index",
    "count": "not every k is multiplied exactly once",
    "mask": "what a mask leaves out is not 0 when it is multiplied",
    "value": "an operand holds other numbers than it should",
    "sum": "not every product reaches Y exactly once",
    "precision": "an intermediate type on the way to Y cannot hold its values",
    "scale": "the products are not multiplied by the scales that belong to them",
}
"""What is wrong where a column deviates, without the numbers of a case."""


@dataclass(frozen=True)
class Number:
    """A coefficient: its value in one launch, and the student's and the contract's names that have this value there."""

    value: int
    names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """With its name, of the shortest ones, where that is the only one: two that are equal here need not be equal in meaning."""
        shortest = {name for name in self.names if _parts(name) == min(map(_parts, self.names))}
        return f"{shortest.pop()} = {self.value}" if len(shortest) == 1 else f"{self.value}"

    def within(self, line: str, makes: str | None) -> Number:
        """Of several names those alone whose parts all stand in the student's line. Where none does: of what was found, those in the lines
        that it is made of; of what is expected (makes is None), those of one part, for products and quotients may have any value."""
        for text in (line, makes):
            words = set(re.findall(r"\w+", text or ""))
            if standing := frozenset(name for name in self.names if set(re.findall(r"[A-Za-z_]\w*", name)) <= words):
                return replace(self, names=standing)
        one_part = frozenset(name for name in self.names if _parts(name) == 1)
        return replace(self, names=one_part if makes is None else frozenset())


def _parts(name: str) -> int:
    """How many words a name has: one, or three of a product or a quotient."""
    return len(name.split(" "))


@dataclass(frozen=True)
class Observation:
    """One deviation, measured. `found` and `expected` may hold {0}, {1}, ... for `numbers`.

    column: which of COLUMNS. aspect: what of it, such as "left step"; two launches show the same thing where column and aspect
    agree. line: of the module; variable: what is assigned there. program, iteration: of the first place where it showed.
    values: float64 [n, 3], rows, k and numbers of the operand, for the catalogue; or n = 0. what, hint: the name of a catalogued
    mistake that does the same, "" for none. grid: of the launch. reached: the lines
    whose addresses are made in this one.
    hedged: whether it was not tried if another number there would put it right, so that nothing there need be wrong.
    """

    column: str
    aspect: str
    line: int | None
    found: str
    expected: str = ""
    numbers: tuple[Number, ...] = ()
    variable: str = ""
    program: int | None = None
    grid: tuple[int, int, int] = (1, 1, 1)
    iteration: int | None = None
    case: str = ""
    caller: int | None = None
    reached: frozenset[int] = frozenset()
    values: Array = field(default_factory=lambda: np.zeros((0, 3)), hash=False, compare=False)
    mistake: str = ""
    what: str = ""
    hint: str = ""
    hedged: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.column, self.aspect

    @property
    def side(self) -> tuple[str, str]:
        """Its column, and the operand, or what else its aspect begins with."""
        return self.column, self.aspect.split(" ")[0]

    @property
    def loads_stray(self) -> bool:
        """Whether other elements than their own are loaded, so that no mask helps."""
        of_scale = self.column == "scale" and "_ptr" in self.aspect and not self.aspect.endswith((" made", " masked"))
        return self.stray or of_scale

    @property
    def stray(self) -> bool:
        """Whether stores or operands are elsewhere than they belong."""
        return self.column in ("store", "rows", "k", "index")

    @property
    def of_an_element(self) -> bool:
        """Whether it goes by which element of Y a product is meant for."""
        return self.aspect.endswith((" place", " begin"))

    @property
    def by_place(self) -> bool:
        """Whether it follows from sums that are stored elsewhere than they belong."""
        return self.column in ("count", "scale") or self.of_an_element

    @property
    def wrong_stride(self) -> bool:
        """Whether the rows or columns of a product are known to be stored too far apart, or too near."""
        return self.column == "store" and self.aspect.startswith("stride")

    @property
    def misplaced(self) -> bool:
        """Whether sums are known to be stored elsewhere than they belong."""
        return self.key == ("store", "place") or (
            self.column == "programs" and self.aspect in ("missing", "shared") and not self.hedged
        )

    def agreeing(self, other: Observation) -> Observation:
        """With only the names that its numbers have in another launch too."""
        if len(self.numbers) != len(other.numbers):
            return replace(self, numbers=tuple(Number(number.value) for number in self.numbers))
        both = zip(self.numbers, other.numbers, strict=True)
        return replace(self, numbers=tuple(Number(one.value, one.names & same.names) for one, same in both))

    def text(self, place: str) -> str:
        """The sentence: what was measured, behind the line to look at first, which need not be the one at fault. place: that line in the
        student's words."""
        where = [place]
        if self.variable and not self.hedged:
            where.append(f"`{self.variable}`")
        if self.case:
            where.append(f"in `{self.case}`")
        if self.program is not None:
            where.append(f"program {place_in(self.grid, self.program)}")
        if self.iteration is not None:
            where.append(f"iteration {self.iteration}")
        expected = f", expected {self.expected.format(*self.numbers)}" if self.expected else ""
        named = (
            f". A kernel that {self.what} gives the same numbers here{f' ({self.hint})' if self.hint else ''}"
            if self.what
            else ""
        )
        return f"{', '.join(where)}: {self.found.format(*self.numbers)}{expected}{named}"

    def general(self, place: str) -> str:
        """The same without the numbers of a case."""
        return f"{place}: {f'wrong in the same way as a kernel that {self.what}' if self.what else ABOUT[self.column]}"


def first_of_each(observations: Iterable[Observation]) -> list[Observation]:
    """In the order of the flow; of those with one column and aspect, or one column and line, the first; of an operand's places the first
    program's, whose mistake shows otherwise in others."""
    ordered = sorted(observations, key=lambda one: COLUMNS.index(one.column))
    distinct: list[Observation] = []
    for one in ordered:
        same = (other for other in distinct if other.column == one.column)
        if all(
            one.aspect != other.aspect
            and one.line != other.line
            and not (one.stray and one.side == other.side and one.case == other.case and one.program != other.program)
            for other in same
        ):
            distinct.append(one)
    return distinct


def span(numbers: Array) -> str:
    """Numbers as slices; of many, the first few."""
    distinct = np.unique(numbers)
    if not len(distinct):
        return "none"
    low, high = int(distinct[0]), int(distinct[-1])
    if high - low + 1 == len(distinct):
        return f"{low}:{high + 1}" if high > low else f"{low}"
    steps = np.unique(np.diff(distinct))
    if len(steps) == 1 and len(distinct) > 2:
        return f"{low}:{high + 1}:{int(steps[0])}"
    ends = np.flatnonzero(np.diff(distinct) != 1)
    runs = [(int(a), int(b)) for a, b in zip(distinct[[0, *(ends + 1)]], distinct[[*ends, -1]], strict=True)]
    words = [f"{a}:{b + 1}" if b > a else str(a) for a, b in runs[:4]]
    return ", ".join(words) + (", ..." if len(runs) > 4 else "")


def plain(value: float) -> str:
    """A number as students read it."""
    return f"{value:,.0f}".replace(",", " ") if 10_000 <= abs(value) < 1e12 else f"{value:.5g}"
