"""Which kernels look alike? Token fingerprints with names normalised, what the stub gave left out (copydetect)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ASSIGNMENT = Path(__file__).parents[3] / "assignment"
NOISE_TOKENS = 25
WINDOW = 12
WORTH_TELLING = 0.8
"""Share of the shorter kernel's own tokens; two honest solutions of one lab share up to about half."""

MAX_CHARACTERS = 100_000
MAX_PAIRS = 200
MAX_COMPARED = 400
"""Pairs with the most fingerprints in common, which are compared token by token."""


@dataclass(frozen=True)
class Pair:
    """Two students' kernels: what share of either is found in the other, from 0 to 1."""

    lab_id: str
    first: str
    second: str
    share_of_first: float
    share_of_second: float
    identical: bool

    @property
    def share(self) -> float:
        return max(self.share_of_first, self.share_of_second)


@dataclass(frozen=True)
class Comparison:
    """The pairs worth telling, and sentences on the kernels that were not compared."""

    pairs: Sequence[Pair]
    left_out: Sequence[str] = ()


def similar_kernels(lab_id: str, modules: Mapping[str, str]) -> Comparison:
    """The pairs of students whose kernels are alike, the most alike first. `modules`: source text by student."""
    from copydetect import CodeFingerprint, compare_files

    given = _stub_hashes(lab_id)

    def fingerprint(text: str) -> CodeFingerprint:
        return CodeFingerprint(f"{lab_id}.py", NOISE_TOKENS, WINDOW, given, language="python", fp=io.StringIO(text))

    prints: dict[str, CodeFingerprint] = {}
    left_out = []
    for student, text in modules.items():
        try:
            if len(text) > MAX_CHARACTERS:
                raise ValueError(f"it has {len(text)} characters, at most {MAX_CHARACTERS} are compared")
            prints[student] = fingerprint(text)
        except Exception as error:  # a text that cannot be compared is its student's alone
            left_out.append(f"{lab_id} of {student} was not compared: {error}.")
    holders: dict[int, list[str]] = {}
    for student, one in prints.items():
        for value in one.hashes:
            holders.setdefault(int(value), []).append(student)
    shared: Counter[tuple[str, str]] = Counter()
    for students in holders.values():
        for place, first in enumerate(students):
            for second in students[place + 1 :]:
                shared[first, second] += 1
    rough = {pair: count / min(len(prints[student].hashes) for student in pair) for pair, count in shared.items()}
    likely = sorted(
        (pair for pair, share in rough.items() if share >= WORTH_TELLING / 2), key=lambda pair: -rough[pair]
    )
    pairs = []
    for first, second in likely[:MAX_COMPARED]:
        _, (one, other), _ = compare_files(prints[first], prints[second])
        identical = modules[first] == modules[second]
        pair = Pair(lab_id, first, second, min(1.0, float(one)), min(1.0, float(other)), identical)
        if pair.share >= WORTH_TELLING:
            pairs.append(pair)
    pairs.sort(key=lambda pair: (-pair.share, pair.first, pair.second))
    return Comparison(pairs[:MAX_PAIRS], left_out)


def _stub_hashes(lab_id: str) -> list[int]:
    """Fingerprints of what every student was given."""
    from copydetect import CodeFingerprint

    stub = ASSIGNMENT / f"{lab_id}.py"
    if not stub.exists():
        return []
    text = io.StringIO(stub.read_text(encoding="utf-8"))
    return sorted(CodeFingerprint(stub.name, NOISE_TOKENS, 1, language="python", fp=text).hashes)
