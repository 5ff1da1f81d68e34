"""What is known to be wrong, each thing once: its sentences, and the cases in which it shows.

A diagnosis that names a mistake belongs to many failing cases at once. What has no name describes its own case and stays there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grader.compile_errors import headline
from grader.model import LabReport, TestKind, TestResult

COUNTED = re.compile(r"^\(\d+ of \d+\) ")
CONFIG = re.compile(r" \[[^\[\]]*config \d+\]$")


@dataclass(frozen=True)
class Paragraph:
    """One finding. sentences: in the order in which to put things right. whole: whether every failing case has it. early: accesses out
    of bounds may follow from it."""

    number: int
    sentences: tuple[str, ...]
    cases: tuple[str, ...]
    whole: bool
    early: bool = False

    @property
    def where(self) -> str:
        """The cases in words."""
        if self.whole and len(self.cases) > 2:
            return f"all {len(self.cases)} failing cases: {', '.join(self.cases)}"
        return ", ".join(self.cases)


def findings(tests: Sequence[TestResult]) -> tuple[Paragraph, ...]:
    """The findings of a lab's tests, in the order of the first case of each."""
    failing = [test for test in tests if test.kind == "correctness" and test.status == "failed"]
    groups: dict[str, list[TestResult]] = {}
    for test in failing:
        if is_named(test):
            groups.setdefault(str(test.metrics["mistake"]), []).append(test)
    return tuple(
        Paragraph(
            number,
            sentences(group[0].diagnosis or ""),
            tuple(test.name for test in group),
            len(group) == len(failing),
            bool(group[0].metrics.get("early")),
        )
        for number, group in enumerate(groups.values(), 1)
    )


def is_named(test: TestResult) -> bool:
    """Whether the case's diagnosis names a mistake, so that it is told among the findings."""
    return bool(test.diagnosis) and bool(test.metrics.get("mistake"))


def says_something_new(tests: Sequence[TestResult]) -> frozenset[str]:
    """The cases whose diagnosis has no name and was not given for a case before, whatever the sizes of the tiles."""
    said, new = set(), []
    for test in tests:
        if test.diagnosis and not is_named(test):
            words = re.sub(r"; it fails from .*", "", test.diagnosis)
            if words not in said:
                said.add(words)
                new.append(test.name)
    return frozenset(new)


def sentences(diagnosis: str) -> tuple[str, ...]:
    """A diagnosis sentence by sentence, without the counts before them."""
    return tuple(COUNTED.sub("", line) for line in diagnosis.splitlines())


def first_said(tests: Sequence[TestResult]) -> dict[str, str]:
    """For each case whose message was said of a case above it, the name of that case; only the config may differ."""
    said: dict[str, str] = {}
    again: dict[str, str] = {}
    for test in tests:
        if test.status == "failed" and test.kind == "correctness":
            first = said.setdefault(CONFIG.sub("", test.message), test.name)
            if first != test.name:
                again[test.name] = first
    return again


def next_thing(lab: LabReport) -> str:
    """What to fix first in a lab that ran: what does not compile, memory, a finding, a case; or ""."""
    broken, strayed, failed = (_first_failed(lab, kind) for kind in ("build", "memory", "correctness"))
    if broken is not None:
        return headline(broken.message)
    named = next(iter(findings(lab.tests)), None)
    if named is not None and named.early:
        return named.sentences[0]
    if strayed is not None and strayed.metrics.get("seen"):
        return strayed.message.splitlines()[0]
    if named is not None:
        return named.sentences[0]
    if failed is not None:
        return f"make `{failed.name}` pass first. {(failed.diagnosis or failed.message).splitlines()[0]}"
    return strayed.message.splitlines()[0] if strayed is not None else ""


def _first_failed(lab: LabReport, kind: TestKind) -> TestResult | None:
    return next((test for test in lab.tests if test.kind == kind and test.status == "failed"), None)
