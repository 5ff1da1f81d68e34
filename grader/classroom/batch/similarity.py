"""Which kernels look alike? Token fingerprints with names normalised, what the stub gave left out (copydetect)."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copydetect import CodeFingerprint

ASSIGNMENT = Path(__file__).parents[3] / "assignment"
NOISE_TOKENS = 25
WINDOW = 12
WORTH_TELLING = 0.8
"""Share of the shorter kernel's own tokens; two honest solutions of one lab share up to about half."""

MAX_CHARACTERS = 100_000
MAX_COMPARED = 2000
"""Pairs that are compared token by token, those with the most fingerprints in common first."""


@dataclass(frozen=True)
class Link:
    """Two texts that are alike, by who handed them in, and the share of either that is found in the other, 0 to 1."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    share_of_first: float
    share_of_second: float

    @property
    def share(self) -> float:
        return max(self.share_of_first, self.share_of_second)


@dataclass(frozen=True)
class Group:
    """Students whose kernels are alike. identical: those among them who have the same text; links: what holds the texts together."""

    lab_id: str
    students: tuple[str, ...]
    identical: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Comparison:
    """What is worth telling, and sentences on the kernels that were not compared."""

    found: Sequence[Group]
    left_out: Sequence[str] = ()


def similar_kernels(lab_id: str, modules: Mapping[str, str]) -> Comparison:
    """Whose kernels are alike, the largest groups first. `modules`: source text by student.

    The same text is compared once for all, and no two texts that others hold together already.
    """
    from copydetect import compare_files

    owners: dict[str, tuple[str, ...]] = {}
    for student, text in modules.items():
        owners[text] = (*owners.get(text, ()), student)
    prints, left_out = _fingerprints(lab_id, owners)
    together = {text: {text} for text in prints}
    links: list[tuple[str, Link]] = []
    compared = 0
    for first, second in _likely({text: {int(value) for value in one.hashes} for text, one in prints.items()}):
        if second in together[first]:
            continue
        if compared == MAX_COMPARED:
            left_out.append(f"{lab_id}: there were more pairs than could be compared; those most alike came first.")
            break
        compared += 1
        _, (one, other), _ = compare_files(prints[first], prints[second])
        link = Link(owners[first], owners[second], min(1.0, float(one)), min(1.0, float(other)))
        if link.share >= WORTH_TELLING:
            links.append((first, link))
            members = together[first] | together[second]
            together |= dict.fromkeys(members, members)
    found = [
        Group(
            lab_id,
            tuple(sorted(student for text in members for student in owners[text])),
            tuple(sorted(owners[text] for text in members if len(owners[text]) > 1)),
            tuple(link for text, link in links if text in members),
        )
        for members in {id(members): members for members in together.values()}.values()
    ]
    alike = [group for group in found if len(group.students) > 1]
    return Comparison(sorted(alike, key=lambda group: (-len(group.students), group.students)), left_out)


def _fingerprints(lab_id: str, owners: Mapping[str, Sequence[str]]) -> tuple[dict[str, CodeFingerprint], list[str]]:
    """What is compared of each text, and why some are not. owners: students by text."""
    from copydetect import CodeFingerprint

    given: list[int] = []
    if stub := stub_of(lab_id):
        everybodys = CodeFingerprint(f"{lab_id}.py", NOISE_TOKENS, 1, language="python", fp=io.StringIO(stub))
        given = sorted(everybodys.hashes)
    prints: dict[str, CodeFingerprint] = {}
    left_out = []
    for text, students in owners.items():
        try:
            if len(text) > MAX_CHARACTERS:
                raise ValueError(f"it has {len(text)} characters, at most {MAX_CHARACTERS} are compared")
            prints[text] = CodeFingerprint(
                f"{lab_id}.py", NOISE_TOKENS, WINDOW, given, language="python", fp=io.StringIO(text)
            )
        except Exception as error:  # a text that cannot be compared is its students' alone
            left_out.append(f"{lab_id} of {', '.join(students)} was not compared: {error}.")
    return prints, left_out


def _likely(hashes: Mapping[str, set[int]]) -> list[tuple[str, str]]:
    """Pairs of texts that have enough fingerprints in common to be compared, those with the most first."""
    holders: dict[int, list[str]] = {}
    for text, values in hashes.items():
        for value in values:
            holders.setdefault(value, []).append(text)
    shared = Counter(pair for texts in holders.values() for pair in itertools.combinations(texts, 2))
    rough = {pair: count / min(len(hashes[text]) for text in pair) for pair, count in shared.items()}
    return sorted((pair for pair, share in rough.items() if share >= WORTH_TELLING / 2), key=lambda pair: -rough[pair])


def stub_of(lab_id: str) -> str:
    """What every student was given; "" without it."""
    stub = ASSIGNMENT / f"{lab_id}.py"
    return stub.read_text(encoding="utf-8") if stub.exists() else ""
