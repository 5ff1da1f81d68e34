"""Is an answer to a question with numbers right, and if not, what went wrong? Says it without telling the right number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grader.labs.question import Posed

HALF = 0.5
"""The share of the points for a number that is right but for its unit."""

UNITS = (
    *(
        (1000.0**power, f"Your number is {1000**power:,} times as large as it should be: look at the unit ({{unit}}).")
        for power in (1, 2, 3)
    ),
    *(
        (1000.0**-power, f"Your number is {1000**power:,} times too small: look at the unit ({{unit}}).")
        for power in (1, 2, 3)
    ),
    *(
        (
            base**power / asked**power,
            "Your number is in powers of 1024; the question asks for {unit}, in powers of 1000.",
        )
        for base, asked in ((1024.0, 1000.0), (1000.0, 1024.0))
        for power in (1, 2, 3)
    ),
    (8.0, "Your number is 8 times as large as it should be: bits instead of bytes?"),
    (0.125, "Your number is 8 times too small: bytes instead of bits?"),
)
"""Factors by which an answer is off when it is right but for its unit."""

PREFIXES = ("", "k", "M", "G", "T")
"""Of a unit of bytes: powers of 1000, or of 1024 with an i behind it."""

OTHERS = (
    (
        2.0,
        "Your number is twice as large as it should be: did you count something twice, or forget that an fp16 number has two bytes?",
    ),
    (0.5, "Your number is half of what it should be: a multiply-add is two operations, an fp16 number two bytes."),
    (-1.0, "Your number has the wrong sign."),
)


@dataclass(frozen=True)
class Mark:
    """The share of the points, from 0 to 1, and the sentence that goes with it."""

    share: float
    sentence: str


def mark(posed: Posed, answer: float) -> Mark:
    """Marks a finite number."""
    if _near(answer, posed.answer, posed):
        return Mark(1.0, f"Right: {answer:.6g} (asked for: {wanted(posed)}).")
    likely = [one for one in _mistakes(posed) if _near(answer, one.answer, posed, one.tolerance)]
    if likely:
        return min(likely, key=lambda one: abs(answer - one.answer)).mark
    return Mark(0.0, f"{answer:.6g} is not right (asked for: {wanted(posed)}). Hint: {posed.hint}.")


@dataclass(frozen=True)
class _Mistake:
    """An answer that is often given, how near an answer must lie to be taken for it (None: as near as to the right one), its mark."""

    answer: float
    tolerance: float | None
    mark: Mark


def _mistakes(posed: Posed) -> list[_Mistake]:
    """The question's own first: of two that are as near, the first is told."""
    mistakes = [_Mistake(trap.answer, None, Mark(0.0, trap.sentence)) for trap in posed.traps]
    if posed.factor is not None:
        return mistakes
    tolerance = min(max(posed.tolerance, 1e-9), 0.01)
    of_bytes = "byte" in posed.unit or posed.unit.endswith("B")
    if of_bytes and posed.tolerance:
        mistakes += [
            _Mistake(
                factor * posed.answer,
                tolerance,
                Mark(HALF, f"Right except for the unit. {sentence.format(unit=posed.unit)}"),
            )
            for factor, sentence in (*UNITS, *_binary(posed.unit))
        ]
    return mistakes + [_Mistake(factor * posed.answer, tolerance, Mark(0.0, sentence)) for factor, sentence in OTHERS]


COUNTED = ("bits", "terms", "times")
"""Units of which there is a number."""


def wanted(posed: Posed) -> str:
    """What is asked for: a number, its unit, and how far off it may be, as in "a number in MB, within 2%"."""
    exactly = f"within {100 * posed.tolerance:g}%" if posed.tolerance else "exact"
    allowed = exactly if posed.factor is None else f"within a factor of {posed.factor:g}"
    unit = f" {'of' if posed.unit in COUNTED else 'in'} {posed.unit}" if posed.unit else ""
    return f"a number{unit}, {allowed}"


def _binary(unit: str) -> list[tuple[float, str]]:
    """Factors of an answer in KiB, MiB or GiB where another unit is asked for, which are neither 1000 nor 1024 alone."""
    asked = PREFIXES.index(unit[0].replace("K", "k")) if unit.endswith("B") and len(unit) == 2 else 0
    return [
        (
            1000.0**asked / 1024.0**other,
            f"Your number is in {PREFIXES[other].upper()}iB, powers of 1024; the question asks for {{unit}}, in powers of 1000.",
        )
        for other in (1, 2, 3)
        if other != asked
    ]


def _near(answer: float, right: float, posed: Posed, tolerance: float | None = None) -> bool:
    if posed.factor is not None:
        return right > 0 and answer > 0 and 1 / posed.factor <= answer / right <= posed.factor
    return math.isclose(answer, right, rel_tol=max(posed.tolerance, 1e-9) if tolerance is None else tolerance)
