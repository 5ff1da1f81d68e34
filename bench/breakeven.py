"""From which sparsity on a sparse kernel beats the dense product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.reporting.benchmarks import Entry, Record


@dataclass(frozen=True)
class BreakEven:
    """Where the ratio crosses 1; `sparsity` is None when it does not inside what was measured, and `text` says which."""

    sparsity: float | None
    text: str


def break_even(points: Sequence[tuple[float, float]]) -> BreakEven:
    """The crossing of (sparsity, ratio) points, linear in the ratio's logarithm between them. Needs one point or more."""
    ordered = sorted(points)
    if ordered[0][1] >= 1:
        return BreakEven(None, f"below {ordered[0][0]:g}")
    for (s0, r0), (s1, r1) in itertools.pairwise(ordered):
        if r0 < 1 <= r1:
            sparsity = s0 + (s1 - s0) * -math.log(r0) / (math.log(r1) - math.log(r0))
            return BreakEven(sparsity, f"{sparsity:.2f}")
    return BreakEven(None, f"above {ordered[-1][0]:g}")


def curves(record: Record, lab: str | None = None) -> dict[tuple[int, str], list[Entry]]:
    """Timed entries over sparsity, by (M, contestant), ladder steps left out."""
    found: dict[tuple[int, str], list[Entry]] = {}
    for entry in record.timed(lab):
        if entry.sparsity is not None and entry.kind != "ladder":
            found.setdefault((entry.M, entry.contestant), []).append(entry)
    return {key: sorted(entries, key=lambda entry: entry.sparsity or 0.0) for key, entries in found.items()}


def of(entries: Sequence[Entry]) -> BreakEven:
    """The break-even of one curve."""
    return break_even([(entry.sparsity or 0.0, entry.ratio) for entry in entries])
