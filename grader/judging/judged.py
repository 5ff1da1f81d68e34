"""What is known of one lab's kernel when points are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.diagnosis.likeness import Diagnosis
from grader.judging.checking import Finding
from grader.model import KernelBundle, Outcome, SpeedSample


@dataclass(frozen=True)
class Judged:
    """What is known of one lab when points are given: findings by case and config, speed samples, build.

    diagnoses: one for each outcome, or none at all. watched: the launches whose every access the interpreter looked at:
    the outcomes themselves, or beside a GPU's those of the interpreter. memory: what was found there, in sentences.
    """

    bundle: KernelBundle
    capabilities: tuple[int, ...]
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]
    samples: Sequence[SpeedSample] | None
    diagnoses: Sequence[Diagnosis | None] = ()
    watched: Sequence[Outcome] = ()
    memory: Sequence[str] = ()
