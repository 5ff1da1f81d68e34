"""Why a lab is wrong, each cause once and the first to put right first: its sentences, and the cases in which it shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grader.compile_errors import headline
from grader.compile_errors.named_line import each_with_lines, named_line
from grader.compile_errors.setting import unparsed
from grader.model import KernelSource, LabReport, TestResult
from grader.parsing import nodes, parse

COUNTED = re.compile(r"^\(\d+ of \d+\) ")
SIZES = re.compile(r" \[[^\[\]]*config \d+\]$|(?<![\d.])(?<!line )-?\d[\d.,e+-]*")
"""What may differ between messages that mean the same: numbers other than a line's, and the config."""
SEEN_BY_MEMORY = "(the line `memory` says where)"
ACCESSES = ("load", "store", "atomic_add")
BUILD, EARLY, SEEN, NAMED, UNNAMED, UNSEEN = range(6)
"""In this order to be put right: what does not compile; what leads accesses astray; these, where they were seen; what was observed of
wrong cases; the cases of which nothing was; what else `memory` says."""


@dataclass(frozen=True)
class Cause:
    """One cause. sentences: in the order in which to put things right; one may hold several lines. test: what found it, "" for the cases.
    cases: the failing ones that have it; of: how many fail in all. follow: how many of the last sentences are about the same thing as
    the ones before. also: the other GPUs for which a build fails likewise."""

    number: int
    sentences: tuple[str, ...]
    test: str = ""
    cases: tuple[str, ...] = ()
    of: int = 0
    follow: int = 0
    also: tuple[str, ...] = ()

    @property
    def unexplained(self) -> bool:
        """Whether its sentences are about a case of which nothing was observed."""
        return bool(self.cases) and self.sentences[0].startswith(f"`{self.cases[0]}`: ")

    @property
    def reasons(self) -> int:
        """How many things it says are wrong, which are numbered where it is the only cause."""
        return 1 if self.unexplained else len(self.sentences) - self.follow

    @property
    def where(self) -> str:
        """The cases in words: all of them, or the first few; "" where a sentence says in which one it was observed."""
        if self.also:
            return f"the same for {' and '.join(self.also)}"
        if len(self.cases) == 1 if self.unexplained else not self.test:
            return ""
        if len(self.cases) > 2 and len(self.cases) == self.of:
            return f"in all {self.of} failing cases"
        rest = f" and {len(self.cases) - 3} more" if len(self.cases) > 3 else ""
        return f"in {', '.join(f'`{case}`' for case in self.cases[:3])}{rest}" if self.cases else ""

    def with_excerpts(self, source: KernelSource | None) -> list[str]:
        """The sentences, each with the line that it names below it; one that an earlier sentence showed is not shown again."""
        return each_with_lines(self.sentences, source)


def failing(tests: Sequence[TestResult]) -> list[TestResult]:
    """The cases that are wrong, or of which the grader failed to find out."""
    return [test for test in tests if test.kind == "correctness" and test.status in ("failed", "error")]


def causes(tests: Sequence[TestResult], source: KernelSource | None = None) -> tuple[Cause, ...]:
    """What is wrong, each cause once, in the order of the ranks above.

    What is said of one place of the source is one cause: of a line, or of an access and the lines that make its addresses. So is what
    differs in SIZES alone.
    """
    wrong = failing(tests)
    memory = next((test for test in tests if test.kind == "memory" and test.status in ("failed", "error")), None)
    seen = memory is not None and bool(memory.metrics.get("seen"))
    covered = [test for test in wrong if seen and not _named(test) and SEEN_BY_MEMORY in test.message]
    found: list[tuple[int, Cause]] = []
    for rank, cause in sorted(_grouped([test for test in wrong if test not in covered]), key=lambda one: one[0]):
        _join(found, rank, cause, source)
    if memory is not None:
        _join_memory(found, memory, covered, source, seen=seen)
    ordered = [cause for _, cause in sorted([*_builds(tests), *found], key=lambda one: one[0])]
    return tuple(replace(cause, number=number, of=len(wrong)) for number, cause in enumerate(ordered, 1))


def _join_memory(
    found: list[tuple[int, Cause]],
    memory: TestResult,
    covered: Sequence[TestResult],
    source: KernelSource | None,
    *,
    seen: bool,
) -> None:
    """Adds each line of the memory test to the cause about the same place; the rest is a cause of its own. covered: cases of which it
    says where."""
    stray: tuple[str, ...] = ()
    for sentence in memory.message.splitlines():
        if not (seen and _join(found, SEEN, Cause(0, (sentence,)), source, alone=False)):
            stray = (*stray, sentence)
    if stray or covered:
        sentences = stray or (headline(covered[0].message),)
        cause = Cause(0, sentences, memory.name, tuple(test.name for test in covered))
        found.append((SEEN if seen else UNSEEN, cause))


def _join(
    found: list[tuple[int, Cause]], rank: int, cause: Cause, source: KernelSource | None, *, alone: bool = True
) -> bool:
    """Adds a cause to the one that is about the same place, else, where it may stand alone, to those found. Whether it was added."""
    mine = _line(cause.sentences[0], source)
    for at, (before, home) in enumerate(found):
        theirs = {_line(sentence, source) for sentence in (home.sentences[:1] if alone else home.sentences)} - {None}
        if mine is not None and (mine in _made_by(theirs, source) or theirs & _made_by({mine}, source)):
            known = {_meaning(sentence, source) for sentence in home.sentences}
            new = tuple(sentence for sentence in cause.sentences if _meaning(sentence, source) not in known)
            joined = replace(home, sentences=(*home.sentences, *new), cases=(*home.cases, *cause.cases))
            found[at] = min(before, rank), replace(joined, follow=home.follow + len(new))
            return True
    if alone:
        found.append((rank, cause))
    return alone


def _line(sentence: str, source: KernelSource | None) -> int | None:
    return named_line(sentence, source) if source is not None else None


def _made_by(lines: set[int | None], source: KernelSource | None) -> set[int | None]:
    """The lines, and of accesses those that assign the pointers which they use."""
    tree = parse(source.module) if source is not None else None
    calls = [call for call in nodes(tree, ast.Call) if call.lineno in lines and call.args]
    used = {
        name.id
        for call in calls
        if unparsed(call.func).rpartition(".")[2] in ACCESSES
        for name in nodes(call.args[0], ast.Name)
    }
    stored = [name for name in nodes(tree, ast.Name) if isinstance(name.ctx, ast.Store) and name.id in used]
    return {*lines, *(name.lineno for name in stored)}


def _meaning(sentence: str, source: KernelSource | None) -> str:
    """A sentence from the line on that it names, without what may differ between sentences that mean the same."""
    at = _line(sentence, source)
    place = str(source.lines[at - 1]) if source is not None and at is not None else ""
    return SIZES.sub("", sentence[sentence.find(place) :])


def _builds(tests: Sequence[TestResult]) -> Iterator[tuple[int, Cause]]:
    """What does not compile, for several GPUs once."""
    builds: dict[str, list[TestResult]] = {}
    for test in tests:
        if test.kind == "build" and test.status in ("failed", "error"):
            builds.setdefault(SIZES.sub("", test.message), []).append(test)
    for first, *others in builds.values():
        also = tuple(test.name.removeprefix("build_").replace("sm", "sm_") for test in others)
        yield BUILD, Cause(0, (first.message,), first.name, also=also)


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
    first = next(iter(causes(lab.tests, lab.source)), None)
    return start_at(first.sentences[0], lab.source, beside=beside) if first is not None else ""


def start_at(sentence: str, source: KernelSource | None, *, beside: bool) -> str:
    """What to do about the first thing that is wrong, in one line; beside: the sentence stands there too, so only its line."""
    at = _line(sentence, source) if beside else None
    return f"start at {source.lines[at - 1]}, then grade again" if source and at is not None else headline(sentence)
