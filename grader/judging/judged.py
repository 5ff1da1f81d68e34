"""What is known of one lab's kernel when points are given, and why its cases fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.judging.checking import Finding
from grader.model import KernelBundle, Outcome, SpeedSample, ToolWatch


@dataclass(frozen=True)
class Diagnosis:
    """Why one case fails, for the student. `mistake`: the class's name; "" when no known mistake fits.

    evidence: numbers from the case; left out of the text for hidden cases. told, general: the ledger's sentences, which
    take the place of the others, with numbers and without; mistakes: the classes of all of them, first things first. early: the
    first one lies in the grid, in the map of tiles or in a line that accesses what is out of bounds, which may follow from it, or
    all that the memory check found is in lines that the sentences explain.
    astray: lines of the module whose addresses are wrong, and why.
    """

    mistake: str
    what: str
    evidence: str
    hint: str
    told: str = ""
    general: str = ""
    mistakes: tuple[str, ...] = ()
    early: bool = False
    astray: tuple[tuple[int, str], ...] = ()

    def text(self, *, hidden: bool) -> str:
        """The diagnosis in one or two sentences."""
        if self.told:
            return self.general if hidden else self.told
        if not self.mistake:
            return "" if hidden else self.evidence
        evidence = f" ({self.evidence})" if self.evidence and not hidden else ""
        return f"Likely mistake: the output matches {self.what}{evidence}. Hint: {self.hint}"


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
    tool: Sequence[ToolWatch] = ()
