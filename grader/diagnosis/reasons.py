"""reasons: why each failing outcome fails, in sentences: what was observed of public cases, or that nothing could be."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from grader.diagnosis.explaining import Failure, explain, went_wrong
from grader.diagnosis.observation import COLUMNS, Observation
from grader.judging.judged import Diagnosis, Reasons
from grader.model import KernelSource

EXPLAIN_SECONDS = 90.0
"""No recorded launch begins later than this after the first."""
PLACES = COLUMNS.index("count")
"""Columns before this one say which elements are touched at all, so they come before what the memory check found."""


def reasons(failure: Failure) -> Reasons:
    """Why each outcome that failed did. What is said comes from public cases alone; a hidden one gets it without numbers."""
    end = time.monotonic() + EXPLAIN_SECONDS
    cancelled = failure.how.cancelled
    within = replace(failure, how=replace(failure.how, cancelled=lambda: cancelled() or time.monotonic() > end))
    found = explain(within)
    diagnosis = _diagnosis(failure, found.observations) if found.observations else _unread(failure, found.unread)
    answers = [
        diagnosis
        if diagnosis is not None
        and went_wrong(outcome, finding)
        and (diagnosis.mistakes or not failure.lab.hides(outcome.case))
        else None
        for outcome, finding in zip(failure.outcomes, failure.findings, strict=True)
    ]
    return Reasons(answers, found.defects, found.walk)


def _diagnosis(failure: Failure, observations: Sequence[Observation]) -> Diagnosis:
    texts = [one.text(place(failure.source, one)) for one in observations]
    numbered = texts if len(texts) == 1 else [f"({i} of {len(texts)}) {text}" for i, text in enumerate(texts, 1)]
    return Diagnosis(
        "\n".join(numbered),
        "; ".join(one.general(place(failure.source, one)) for one in observations),
        tuple(one.mistake or f"{one.column}: {one.aspect}" for one in observations),
        _comes_first(failure, observations),
        tuple((line, "its addresses are wrong") for one in observations for line in one.reached),
    )


def place(source: KernelSource, observation: Observation) -> str:
    """An observation's line in the student's words: where to look first, for what is at fault was not measured."""
    if observation.line is None:
        return source.path.name
    from_other_line = observation.caller not in (None, observation.line)
    called = f", called in {source.locate(observation.caller or 0)}" if from_other_line else ""
    return f"{source.locate(observation.line)} (look here first){called}"


def _comes_first(failure: Failure, observations: Sequence[Observation]) -> bool:
    """Whether the first observation is to be put right before what the memory check found: it may cause that, or explains all of it."""
    public = [outcome for outcome in failure.watched if not failure.lab.hides(outcome.case)]
    faulty = {one.line for outcome in public for one in outcome.memory or ()}
    lines = {one.line for one in observations}
    return COLUMNS.index(observations[0].column) < PLACES or (bool(faulty) and faulty <= lines)


def _unread(failure: Failure, unread: str) -> Diagnosis | None:
    """That how Y comes about could not be followed, and in which case this is looked into with the least work."""
    failing = failure.failing
    public = [outcome for outcome in failure.watched if not failure.lab.hides(outcome.case)]
    wrong = [finding for finding in failure.findings if not (finding.ok or finding.skipped)]
    if not failing or any(outcome.memory for outcome in public) or all(finding.explained for finding in wrong):
        return None  # the memory check, and the judge of slices, have sentences of their own
    cases = [failure.lab.case(one.case) for one in failing]
    small = min(cases, key=lambda case: case.M * case.N * case.K).name
    why = f" ({unread})" if unread else ""
    return Diagnosis(
        f"the grader could not trace how this kernel computes Y{why}; the smallest failing case is `{small}`"
    )
