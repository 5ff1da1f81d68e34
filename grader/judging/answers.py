"""Is an answer to a question with numbers right, and if not, what went wrong? Says it without telling the right number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grader.labs.question import Posed

HALF = 0.5
"""The share of the points for a number that is right but for its unit."""

UNITS = (
    *((1000.0**power, f"It is {1000**power:,} times as large as it should be: look at the unit ({{unit}}).") for power in (1, 2, 3)),
    *((1000.0**-power, f"It is {1000**power:,} times too small: look at the unit ({{unit}}).") for power in (1, 2, 3)),
    *((1024.0**power / 1000.0**power, "It is in powers of 1024: asked is {unit} in powers of 1000.") for power in (1, 2, 3)),
    *((1000.0**power / 1024.0**power, "It is in powers of 1024: asked is {unit} in powers of 1000.") for power in (1, 2, 3)),
    (8.0, "It is 8 times as large as it should be: bits in place of bytes?"),
    (0.125, "It is 8 times too small: bytes in place of bits?"),
)
"""Factors by which an answer is off when it is right but for its unit."""

OTHERS = (
    (2.0, "It is twice what it should be: what did you count double, or is it one that has two bytes, or two operations?"),
    (0.5, "It is half of what it should be: a multiply-add is two operations, an fp16 number two bytes."),
    (-1.0, "It has the wrong sign."),
)


@dataclass(frozen=True)
class Mark:
    """The share of the points, from 0 to 1, and the sentence that goes with it."""

    share: float
    sentence: str


def mark(posed: Posed, answer: float) -> Mark:
    """Marks a finite number."""
    if _near(answer, posed.answer, posed):
        return Mark(1.0, f"Right: {answer:.6g} (asked: {wanted(posed)}).")
    for trap in posed.traps:
        if _near(answer, trap.answer, posed):
            return Mark(0.0, trap.sentence)
    tolerance = max(posed.tolerance, 1e-9) if posed.factor is None else 0.02
    exact = posed.tolerance == 0 or posed.factor is not None
    for factor, sentence in UNITS if _of_bytes(posed.unit) and not exact else ():
        if math.isclose(answer, factor * posed.answer, rel_tol=min(tolerance, 0.01)):
            return Mark(HALF, f"Right but for the unit. {sentence.format(unit=posed.unit)}")
    for factor, sentence in OTHERS if posed.factor is None else ():
        if math.isclose(answer, factor * posed.answer, rel_tol=min(tolerance, 0.01)):
            return Mark(0.0, sentence)
    return Mark(0.0, f"{answer:.6g} is not right (asked: {wanted(posed)}). Look at this: {posed.look}.")


def wanted(posed: Posed) -> str:
    """What kind of answer is asked for: its unit, and how far off it may be, as in "in MB, within 2 %"."""
    exactly = f"within {100 * posed.tolerance:g} %" if posed.tolerance else "exact"
    allowed = exactly if posed.factor is None else f"within a factor of {posed.factor:g}"
    return f"in {posed.unit}, {allowed}" if posed.unit else allowed


def _of_bytes(unit: str) -> bool:
    return "byte" in unit or unit.endswith("B")


def _near(answer: float, right: float, posed: Posed) -> bool:
    if posed.factor is not None:
        return right > 0 and answer > 0 and 1 / posed.factor <= answer / right <= posed.factor
    return math.isclose(answer, right, rel_tol=max(posed.tolerance, 1e-9))
