"""What is known of one lab's kernel when points are given, and why its cases fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.judging.checking import Finding
from grader.model import KernelBundle, Outcome, SanitizerResult, SpeedSample, Walk


@dataclass(frozen=True)
class Diagnosis:
    """Why one case fails, for the student.

    sentences: what was observed, first things first, one a line; general: the same without the numbers of a case. mistakes: a
    word for each, for counting; () where how Y comes about could not be followed. early: the first one may cause what the memory
    check found, or explains all of it. stray: lines of the module whose addresses are wrong, and why.
    """

    sentences: str
    general: str = ""
    mistakes: tuple[str, ...] = ()
    early: bool = False
    stray: tuple[tuple[int, str], ...] = ()

    @property
    def mistake(self) -> str:
        """The word for the first one."""
        return self.mistakes[0] if self.mistakes else ""

    def text(self, *, hidden: bool) -> str:
        """The sentences, or of a hidden case what may be said of it."""
        return self.general if hidden else self.sentences


@dataclass(frozen=True)
class Reasons:
    """diagnoses: one for each outcome, None where nothing failed or nothing is known. defects: where the diagnosis itself failed. walk: the
    launch that the first reason is read from."""

    diagnoses: Sequence[Diagnosis | None]
    defects: tuple[str, ...] = ()
    walk: Walk | None = None


@dataclass(frozen=True)
class Judged:
    """What is known of one lab when points are given: findings by case and config, speed samples, build.

    diagnoses: one for each outcome, or none at all. watched: the launches whose every access the interpreter looked at:
    the outcomes themselves, or beside a GPU's those of the interpreter. memory: what was found there, in sentences. tool: what a
    tool on the GPU saw of launches that the interpreter could not run.
    """

    bundle: KernelBundle
    capabilities: tuple[int, ...]
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]
    samples: Sequence[SpeedSample] | None
    diagnoses: Sequence[Diagnosis | None] = ()
    watched: Sequence[Outcome] = ()
    memory: Sequence[str] = ()
    sanitized: Sequence[SanitizerResult] = ()
