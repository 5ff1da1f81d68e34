"""Which scales were used? Read off outputs of launches with one product each and scales that all differ a little."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.diagnosis.probing.pairs import FEWEST, TOLERANCE, Runs, spread
from grader.diagnosis.probing.reading import Reading
from grader.labs.imitation import TILES
from grader.labs.probe import ScaleProbe

Array = np.ndarray[Any, Any]

NOUNS = {"m": "token", "n": "column"}


@dataclass(frozen=True)
class Used:
    """How an output used one scale: `times` 0 for not at all, -1 where it was divided by it, else with the element `at`."""

    at: int
    times: int


def read(runs: Runs, scales: Sequence[ScaleProbe], values: Sequence[Array]) -> Reading | None:
    """values: for each scale its elements in each run, float64 [R, L]. None where nothing is certain.

    The runs' weights are without scales, so that what an output is beyond its product is what scales it was given.
    """
    right = runs.right.copy()
    for scale, drawn in zip(scales, values, strict=True):
        right *= drawn[:, :, None] if scale.axis == "m" else drawn[:, None, :]
    with np.errstate(invalid="ignore"):
        wrong = (~(np.abs(runs.y - right) <= TOLERANCE * np.abs(right))).any(axis=0)
    places = [(m, n) for m, n in spread(np.argwhere(wrong)) if runs.right[:, m, n].all()]
    found = []
    for m, n in places:
        if (used := _used(runs, scales, values, m, n)) is not None:
            found.append((m, n, used))
    if len(found) < FEWEST or 2 * len(found) < len(places):
        return None
    for number, scale in enumerate(scales):
        axis, other = (0, 1) if scale.axis == "m" else (1, 0)
        own = [(place[axis], place[other], used[number]) for *place, used in found]
        if (said := _told(scale, own)) is not None:
            return said
    return None


def _used(runs: Runs, scales: Sequence[ScaleProbe], values: Sequence[Array], m: int, n: int) -> tuple[Used, ...] | None:
    """The one way of using the scales that gives the output in every run; None where none or several do."""
    factor = runs.y[:, m, n] / runs.right[:, m, n]
    if not np.isfinite(factor).all():
        return None
    tables = []
    for scale, drawn in zip(scales, values, strict=True):
        own = m if scale.axis == "m" else n
        ways = [(Used(at, 1), drawn[:, at]) for at in range(drawn.shape[1])]
        tables.append([*ways, (Used(own, 0), np.ones(len(factor))), (Used(own, 2), drawn[:, own] ** 2),
                       (Used(own, -1), 1 / drawn[:, own])])  # fmt: skip
    fitting = []
    last = np.array([value for _, value in tables[-1]])
    for before in itertools.product(*tables[:-1]):
        made = np.prod([value for _, value in before], axis=0) if before else np.ones(len(factor))
        fits = (np.abs(made * last - factor) <= TOLERANCE * np.abs(factor)).all(axis=1)
        fitting += [(*(used for used, _ in before), tables[-1][at][0]) for at in np.flatnonzero(fits)]
        if len(fitting) > 1:
            return None
    return fitting[0] if fitting else None


def _told(scale: ScaleProbe, own: Sequence[tuple[int, int, Used]]) -> Reading | None:
    """What is wrong with one scale, where all that were read agree on what. own: its own index, the other one, and its use."""
    noun, words = NOUNS[scale.axis], scale.words
    for name, times, said in (
        ("scale_forgotten", 0, f"Y is not multiplied by the {words}"),
        ("scale_twice", 2, f"Y is multiplied by the {words} twice"),
        ("divided_by_scale", -1, f"Y is divided by the {words} instead of multiplied"),
    ):
        if all(used.times == times for _, _, used in own):
            return Reading(name, f"{said}, in all {len(own)} wrong outputs that were read", said)
    if not all(used.times == 1 for _, _, used in own) or all(used.at == at for at, _, used in own):
        return None
    at, taken = next((at, used.at) for at, _, used in own if used.at != at)
    rule = _rule(noun, [(at, beside, used.at) for at, beside, used in own])
    return Reading("wrong_scale", f"{noun} {at} used the {words} of {noun} {taken}{rule}", f"{words}s of other {noun}s are used{rule}")


def _rule(noun: str, seen: Sequence[tuple[int, int, int]]) -> str:
    """By what all the indices that were used follow from the right ones, as the end of a sentence."""
    if all(used == beside for _, beside, used in seen):
        return f": the index of the {'column' if noun == 'token' else 'token'} is used for it"
    if len({used for _, _, used in seen}) == 1:
        return f": every {noun} gets the same"
    if len(moved := {used - at for at, _, used in seen}) == 1:
        return f": the index is {abs(min(moved))} too {'high' if min(moved) > 0 else 'low'}"
    for tile in TILES:
        if all(used == at % tile for at, _, used in seen):
            return f": those of the first {tile} {noun}s are used again and again"
    return ""
