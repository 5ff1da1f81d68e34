"""What is Y to the right Y? Read off the outputs that are there already: a factor, a sign, a constant, rows that moved."""

from __future__ import annotations

from collections.abc import Callable

import torch

from grader.diagnosis.probing.reading import Reading
from grader.model import Reference

FEWEST = 64
"""An output of fewer elements says nothing by itself."""
SHARE = 0.999


def read(y: torch.Tensor, reference: Reference, *, written: bool = False) -> Reading | None:
    """What an output is to the right one, wherever it is wrong; None where no relation holds. y: fp16 [M, N].

    written: the kernel is known to have stored every element.
    """
    got, right = y.double(), reference.y
    if written and got.numel() >= FEWEST and (found := _no_number(got)) is not None:
        return found
    if got.numel() < FEWEST or not bool(got.isfinite().all()) or not bool(right.any()):
        return None
    wrong = ~((got - right).abs() <= reference.bound)
    if int(wrong.sum()) < FEWEST:
        return None
    for look in (_factor, _magnitude, _constant, _moved):
        if (found := look(got, right, reference.bound, wrong)) is not None:
            return found
    return None


def _no_number(got: torch.Tensor) -> Reading | None:
    """Y is NaN, or infinite, everywhere."""
    kinds = (
        (got.isnan(), "NaN", "0 / 0, inf - inf or 0 x inf"),
        (got.isinf(), "infinite", "a division by zero, or a number that fp16 does not hold"),
    )
    for lanes, what, cause in kinds:
        if bool(lanes.all()):
            words = f"Y is {what} in every element, and the kernel stored that: look for {cause}"
            return Reading("no_number", words, words)
    return None


def _holds(got: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor, times: float = 1.0) -> bool:
    within = (got - expected).abs() <= 2 * max(1.0, abs(times)) * bound
    return float(within.double().mean()) >= SHARE


def _factor(got: torch.Tensor, right: torch.Tensor, bound: torch.Tensor, wrong: torch.Tensor) -> Reading | None:
    """Y is a number times the right Y, everywhere."""
    factor = float((got * right).sum() / right.square().sum())
    if factor == 0 or abs(factor - 1) < 1e-2 or not _holds(got, factor * right, bound, factor):
        return None
    if _holds(torch.zeros_like(got), factor * right, bound, factor):
        return None
    whole = round(factor)
    shown = f"{whole}" if whole and abs(factor - whole) < 2e-3 * abs(factor) else f"{factor:.3g}"
    words = "the right Y with its sign turned" if shown == "-1" else f"{shown} x the right Y"
    return Reading("wrong_factor", f"Y is {words}, in every element", f"Y is {words}")


def _magnitude(got: torch.Tensor, right: torch.Tensor, bound: torch.Tensor, wrong: torch.Tensor) -> Reading | None:
    """Y is right but for its sign, its negative part, or what lies beyond a limit."""
    made: tuple[tuple[str, str, torch.Tensor], ...] = (
        ("negative_part_lost", "Y is right where it is positive, and zero where it should be negative", right.clamp(min=0)),
        ("sign_lost", "Y is right but for its sign: it is never negative", right.abs()),
        ("positive_part_lost", "Y is right where it is negative, and zero where it should be positive", right.clamp(max=0)),
    )
    for name, words, expected in made:
        if _holds(got, expected, bound):
            return Reading(name, words, words)
    high, low = float(got.max()), float(got.min())
    limits = right.clamp(low, high)
    if int((got == high).sum()) + int((got == low).sum()) >= FEWEST and _holds(got, limits, bound) and high > low:
        words = f"Y is right between {low:.5g} and {high:.5g} and is cut off there"
        return Reading("cut_off", words, "Y is cut off at a limit")
    return None


def _constant(got: torch.Tensor, right: torch.Tensor, bound: torch.Tensor, wrong: torch.Tensor) -> Reading | None:
    """Y is the right Y and a constant."""
    added = float((got - right).median())
    if float((abs(added) > bound[wrong]).double().mean()) < SHARE:  # too small to make Y wrong
        return None
    if not _holds(got, right + added, bound + 2.0**-11 * (right + added).abs()):
        return None
    return Reading("constant_added", f"Y is the right Y + {added:.4g}, in every element", "a constant is added to the right Y")


def _moved(got: torch.Tensor, right: torch.Tensor, bound: torch.Tensor, wrong: torch.Tensor) -> Reading | None:
    """Rows of Y that are other rows of the right Y, columns likewise."""
    lines: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        ("row", lambda t: t), ("column", lambda t: t.t()),
    )  # fmt: skip
    for noun, turned in lines:
        y, expected, room, bad = turned(got), turned(right), turned(bound), turned(wrong)
        at = bad.any(dim=1).nonzero().flatten()
        if y.shape[1] < 8 or len(at) < 2:
            continue
        found = {}
        for line in at.tolist():
            fits = ((y[line][None] - expected).abs() <= 2 * (room + 2.0**-11 * expected.abs())).double().mean(dim=1) >= SHARE
            if int(fits.sum()) != 1:
                break
            found[line] = int(fits.double().argmax())
            if found[line] == line:  # where it belongs, and wrong by little
                break
        if len(found) != len(at):
            continue
        first, taken = next(iter(found.items()))
        shifts = {b - a for a, b in found.items()}
        rule = f", and so on: {abs(taken - first)} too {'high' if taken > first else 'low'}" if len(shifts) == 1 else ""
        rule = f": every wrong {noun} is that one" if len(set(found.values())) == 1 and len(found) > 1 else rule
        return Reading(f"{noun}s_moved", f"{noun} {first} of Y holds {noun} {taken} of the right Y{rule}",
                       f"{noun}s of Y are other {noun}s of the right Y")  # fmt: skip
    return None
