"""Why a lab is wrong, each cause once and the first to put right first: its sentences, and the cases in which it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grader.compile_errors import headline
from grader.compile_errors.named_line import named_line
from grader.model import KernelSource, LabReport, TestResult

COUNTED = re.compile(r"^\(\d+ of \d+\) ")
SIZES = re.compile(r" \[[^\[\]]*config \d+\]$|(?<![\d.])(?<!line )-?\d[\d.,e+-]*")
"""What may differ between messages that mean the same: numbers other than a line's, and the config."""
SEEN_BY_MEMORY = "(the line `memory` says where)"
BUILD, EARLY, SEEN, NAMED, UNNAMED, UNSEEN = range(6)
"""In this order to be put right: what does not compile; what leads accesses astray; these, where they were seen; what was observed of
wrong cases; the cases of which nothing was; what else `memory` says."""


@dataclass(frozen=True)
class Cause:
    """One cause. sentences: in the order in which to put things right; one may hold several lines. test: what found it, "" for the cases.
    cases: the failing ones that have it; of: how many fail in all."""

    number: int
    sentences: tuple[str, ...]
    test: str = ""
    cases: tuple[str, ...] = ()
    of: int = 0

    @property
    def unexplained(self) -> bool:
        """Whether its sentences are about a case of which nothing was observed."""
        return bool(self.cases) and self.sentences[0].startswith(f"`{self.cases[0]}`: ")

    @property
    def reasons(self) -> int:
        """How many things it says are wrong, which are numbered where it is the only cause."""
        return 1 if self.unexplained else len(self.sentences)

    @property
    def where(self) -> str:
        """The cases in words: all of them, or the first few; "" where a sentence says in which one it was observed."""
        if len(self.cases) == 1 if self.unexplained else not self.test:
            return ""
        if len(self.cases) > 2 and len(self.cases) == self.of:
            return f"all {self.of} failing cases"
        rest = f" and {len(self.cases) - 3} more" if len(self.cases) > 3 else ""
        return ", ".join(f"`{case}`" for case in self.cases[:3]) + rest

    def place(self, source: KernelSource | None) -> str:
        """The line to change, as a student knows it; "" where none is named."""
        at = named_line(self.sentences[0], source) if source is not None else None
        return str(source.lines[at - 1]) if source is not None and at is not None else ""


def failing(tests: Sequence[TestResult]) -> list[TestResult]:
    """The cases that are wrong, or of which the grader failed to find out."""
    return [test for test in tests if test.kind == "correctness" and test.status in ("failed", "error")]


def causes(tests: Sequence[TestResult]) -> tuple[Cause, ...]:
    """What is wrong, each cause once, in the order of the ranks above."""
    wrong = failing(tests)
    memory = next((test for test in tests if test.kind == "memory" and test.status in ("failed", "error")), None)
    seen = memory is not None and bool(memory.metrics.get("seen"))
    covered = [test for test in wrong if seen and not _named(test) and SEEN_BY_MEMORY in test.message]
    builds: dict[str, str] = {}  # for several GPUs with the same message once
    for test in tests:
        if test.kind == "build" and test.status in ("failed", "error"):
            builds.setdefault(test.message, test.name)
    found = [(BUILD, Cause(0, (message,), name)) for message, name in builds.items()]
    if memory is not None:
        stray = Cause(0, tuple(memory.message.splitlines()), memory.name, tuple(test.name for test in covered))
        found.append((SEEN if seen else UNSEEN, stray))
    found += _grouped([test for test in wrong if test not in covered])
    ordered = [cause for _, cause in sorted(found, key=lambda one: one[0])]
    return tuple(replace(cause, number=number, of=len(wrong)) for number, cause in enumerate(ordered, 1))


def _grouped(wrong: Sequence[TestResult]) -> Iterator[tuple[int, Cause]]:
    """A cause and its rank for the cases of which the same was observed or supposed, or else whose messages mean the same."""
    groups: dict[tuple[bool, str], list[TestResult]] = {}
    for test in wrong:
        named = _named(test)
        key = str(test.metrics["mistake"]) if named else SIZES.sub("", test.diagnosis or test.message)
        groups.setdefault((named, key), []).append(test)
    for (named, _), group in groups.items():
        first = group[0]
        said = tuple(COUNTED.sub("", line) for line in (first.diagnosis or "").splitlines())
        said = said if named else (f"`{first.name}`: {first.message}", *said)
        rank = UNNAMED if not named else EARLY if first.metrics.get("early") else NAMED
        yield rank, Cause(0, said, cases=tuple(test.name for test in group))


def _named(test: TestResult) -> bool:
    """Whether something was observed of the case, which several cases may share."""
    return bool(test.diagnosis) and bool(test.metrics.get("mistake"))


def next_thing(lab: LabReport, *, beside: bool) -> str:
    """What to fix first in a lab that ran, in one line; "" where nothing is wrong. beside: the causes stand there too, so only its line."""
    first = next(iter(causes(lab.tests)), None)
    if first is None:
        return ""
    place = first.place(lab.source) if beside else ""
    return f"start at {place}, then grade again" if place else headline(first.sentences[0])
