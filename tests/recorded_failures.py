"""A failure with all launches that its diagnosis recorded, kept in a file: a changed diagnosis is asked again in half a second."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from grader.diagnosis import explaining
from grader.diagnosis.explaining import Failure
from grader.diagnosis.reasons import reasons
from grader.judging.judged import Reasons
from grader.labs import get_lab
from grader.labs.problems import Problems
from grader.model import Outcome, Problem
from grader.running.cpu import InterpretOptions, interpret

PROGRAMS = 1 << 10
"""By what it records of a launch of so many programs, a way to record is known."""


@dataclass
class RecordedFailure:
    """lab: its id; cases: the names of those that were graded. given: what the failure holds besides lab, problems and options. launches:
    the outcomes of each call of the interpreter, by what it was given."""

    lab: str = ""
    cases: tuple[str, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)
    launches: dict[Any, list[Outcome]] = field(default_factory=dict)

    def reasons(self, failure: Failure) -> Reasons:
        """Why a kernel fails, and all that this was read from kept here."""
        bare = {id(one): replace(one, y=None) for one in (*failure.outcomes, *failure.watched)}
        outcomes, watched = ([bare[id(one)] for one in some] for some in (failure.outcomes, failure.watched))
        self.lab, self.cases = failure.lab.id, tuple(case.name for case in failure.lab.cases)
        self.given = {"source": failure.source, "bundle": failure.bundle, "findings": failure.findings}
        self.given |= {"outcomes": outcomes, "watched": watched}
        return self._explained(failure)

    def again(self, seed: int) -> Reasons:
        """What is said now. seed: of the inputs of the grading."""
        lab = get_lab(self.lab)
        lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in self.cases))
        return self._explained(Failure(lab=lab, problems=Problems(lab, seed), how=InterpretOptions(1), **self.given))

    def _explained(self, failure: Failure) -> Reasons:
        with patch.object(explaining, "interpret", self._interpreted):
            return reasons(failure)

    def _interpreted(
        self, lab: Any, source: Any, bundle: Any, problems: Mapping[str, Problem], pairs: Sequence[Any], how: InterpretOptions
    ) -> list[Outcome]:
        """As the interpreter does it, which is only asked for what it did not do before."""
        programs = None if how.record is None else tuple(how.record(PROGRAMS))
        tensors = [tensor for name, _ in pairs for tensor in problems[name].tensors.values()]
        key = tuple(pairs), programs, how.enough, how.alone, *map(_checksum, tensors)
        if key not in self.launches:
            self.launches[key] = interpret(lab, source, bundle, problems, pairs, how)
        return self.launches[key]


def _checksum(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def capture(path: Path, record: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What grading a kernel gives; a failure in it is written to a file."""
    kept = RecordedFailure()
    with patch("grader.diagnosis.reasons.reasons", kept.reasons):
        found = record()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(pickle.dumps((found, kept)), 1))
    return found


def load(path: Path) -> tuple[dict[str, Any], RecordedFailure]:
    """What grading gave, and the failure, without a lab where there was none."""
    found, kept = pickle.loads(zlib.decompress(path.read_bytes()))
    return found, kept
