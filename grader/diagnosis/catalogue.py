"""The catalogue: what an operand holds in kernels with a known mistake, computed by running them; and which of them a kernel is like.

A lab's `mistakes.toml` holds edits of right kernels, each with a sentence. `make release` runs them on the diagnosis' own
values and keeps their operands in `mistakes.npz`, which students get without the edits. A kernel is given a mistake's name
where its operand equals the mistake's at every sampled element.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from grader.diagnosis.observation import ABOUT, Observation
from grader.diagnosis.provenance import Array

CLOSE = 2e-3
"""How near two numbers are that differ by rounding to fp16 alone."""
FEWEST = 8
"""How many elements must tell a mistake from others."""


@dataclass(frozen=True)
class Mistake:
    """A known mistake in one kernel. kind: what it is called in any. says: completes "the kernel ...". hint: what to do about it, or ""."""

    name: str
    kind: str
    says: str
    hint: str = ""


@dataclass(frozen=True)
class Catalogue:
    """Operands by case, aspect and mistake: float32 [rows, K], NaN where a kernel with the mistake never held one."""

    mistakes: Mapping[str, Mistake] = field(default_factory=dict)
    operands: Mapping[tuple[str, str, str], Array] = field(default_factory=dict)

    def named(self, case: str, observation: Observation) -> Observation:
        """The observation, with the name of the one kind of mistake whose operand is the same at every element that was sampled."""
        if not len(observation.values):
            return observation
        places, held = observation.values[:, :2].astype(np.int64), observation.values[:, 2]
        alike = []
        for (of_case, aspect, name), operand in self.operands.items():
            if (of_case, aspect) != (case, observation.aspect) or (places.max(axis=0) >= operand.shape).any():
                continue
            there = operand[places[:, 0], places[:, 1]]
            finite = np.isfinite(there)
            telling = finite.sum() >= FEWEST and np.ptp(held[finite]) > 0  # one number everywhere tells nothing
            if telling and same(held, there).all():
                alike.append(name)
        kinds = {self.mistakes[name].kind for name in alike}
        if len(kinds) != 1:
            return observation
        known = self.plainest(kinds.pop())
        return replace(observation, mistake=known.kind, what=known.says, hint=known.hint)

    def plainest(self, kind: str) -> Mistake:
        """The entry that a kind of mistake is described by: the one of its own name, else the first."""
        return self.mistakes.get(kind) or next(known for known in self.mistakes.values() if known.kind == kind)


def same(a: Array, b: Array) -> Array:
    """bool: where two operands hold the same number."""
    return np.asarray((np.abs(a - b) <= CLOSE * np.maximum(1.0, np.abs(b))) | (np.isinf(a) & (a == b)))


@cache
def load(lab_id: str) -> Catalogue:
    """The lab's catalogue as it was computed; an empty one for a lab without."""
    path = Path(__file__).parent.parent / "labs" / lab_id / "mistakes.npz"
    if not path.is_file():
        return Catalogue()
    with np.load(path, allow_pickle=False) as stored:
        listed = json.loads(str(stored["mistakes"]))
        keys = [tuple(key.split(" ", 2)) for key in stored.files if key != "mistakes"]
        operands = {(key[0], key[1], key[2]): stored[" ".join(key)].astype(np.float32) for key in keys}
    return Catalogue(
        {one["name"]: Mistake(one["name"], one["kind"], one["says"], one["hint"]) for one in listed}, operands
    )


def title(lab_id: str, mistake: str) -> str:
    """The words for what a report counts a failure as: a catalogued mistake, or the column that deviates."""
    catalogue = load(lab_id)
    known = any(one.kind == mistake for one in catalogue.mistakes.values())
    return catalogue.plainest(mistake).says if known else ABOUT.get(mistake.split(":")[0], mistake)
