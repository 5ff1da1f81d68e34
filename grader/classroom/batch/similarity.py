"""Which kernels look alike? Token fingerprints with names normalised, what the stub gave left out (copydetect)."""

from __future__ import annotations

import io
import itertools
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
MAX_TOLD = 200
MAX_COMPARED = 400
"""Pairs with the most fingerprints in common, which are compared token by token."""


@dataclass(frozen=True)
class Alike:
    """Students whose kernels are alike: the same text, or two texts and the share of either that is found in the other, 0 to 1.

    first, second: who handed in the one text and the other; `second` is empty where all have the same.
    """

    lab_id: str
    first: tuple[str, ...]
    second: tuple[str, ...] = ()
    share_of_first: float = 1.0
    share_of_second: float = 1.0

    @property
    def identical(self) -> bool:
        return not self.second

    @property
    def share(self) -> float:
        return max(self.share_of_first, self.share_of_second)


@dataclass(frozen=True)
class Comparison:
    """What is worth telling, and sentences on the kernels that were not compared."""

    found: Sequence[Alike]
    left_out: Sequence[str] = ()


def similar_kernels(lab_id: str, modules: Mapping[str, str]) -> Comparison:
    """Whose kernels are alike, the most alike first. `modules`: source text by student. The same text is compared once for all."""
    from copydetect import CodeFingerprint, compare_files

    given, whose = _stub_hashes(lab_id), _by_text(modules)
    prints: dict[str, CodeFingerprint] = {}
    left_out = []
    for text, students in whose.items():
        try:
            if len(text) > MAX_CHARACTERS:
                raise ValueError(f"it has {len(text)} characters, at most {MAX_CHARACTERS} are compared")
            prints[text] = CodeFingerprint(f"{lab_id}.py", NOISE_TOKENS, WINDOW, given, language="python", fp=io.StringIO(text))
        except Exception as error:  # a text that cannot be compared is its students' alone
            left_out.append(f"{lab_id} of {', '.join(students)} was not compared: {error}.")
    found = [Alike(lab_id, students) for text, students in whose.items() if text in prints and len(students) > 1]
    likely = _likely({text: {int(value) for value in one.hashes} for text, one in prints.items()})
    for first, second in likely[:MAX_COMPARED]:
        _, (one, other), _ = compare_files(prints[first], prints[second])
        pair = Alike(lab_id, whose[first], whose[second], min(1.0, float(one)), min(1.0, float(other)))
        if pair.share >= WORTH_TELLING:
            found.append(pair)
    if len(likely) > MAX_COMPARED or len(found) > MAX_TOLD:
        left_out.append(f"{lab_id}: more kernels are alike than are told here; those that are most alike come first.")
    found.sort(key=lambda alike: (-alike.share, bool(alike.second), -len(alike.first), alike.first, alike.second))
    return Comparison(found[:MAX_TOLD], left_out)


def _by_text(modules: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The students of each text."""
    found: dict[str, tuple[str, ...]] = {}
    for student, text in modules.items():
        found[text] = (*found.get(text, ()), student)
    return found


def _likely(hashes: Mapping[str, set[int]]) -> list[tuple[str, str]]:
    """Pairs of texts that have enough fingerprints in common to be compared, those with the most first."""
    holders: dict[int, list[str]] = {}
    for text, values in hashes.items():
        for value in values:
            holders.setdefault(value, []).append(text)
    shared = Counter(pair for texts in holders.values() for pair in itertools.combinations(texts, 2))
    rough = {pair: count / min(len(hashes[text]) for text in pair) for pair, count in shared.items()}
    return sorted((pair for pair, share in rough.items() if share >= WORTH_TELLING / 2), key=lambda pair: -rough[pair])


def _stub_hashes(lab_id: str) -> list[int]:
    """Fingerprints of what every student was given."""
    from copydetect import CodeFingerprint

    stub = ASSIGNMENT / f"{lab_id}.py"
    if not stub.exists():
        return []
    text = io.StringIO(stub.read_text(encoding="utf-8"))
    return sorted(CodeFingerprint(stub.name, NOISE_TOKENS, 1, language="python", fp=text).hashes)
