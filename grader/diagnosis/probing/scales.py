"""Which scales were used, and which zero points? Read off outputs of launches with one product each, and others of them each time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.diagnosis.probing.pairs import FEWEST, TOLERANCE, Runs, spread
from grader.diagnosis.probing.reading import Reading
from grader.labs.imitation import TILES
from grader.labs.probe import ScaleProbe, SubtractedProbe

Array = np.ndarray[Any, Any]

NOUNS = {"m": "token", "n": "column"}


WHOLE = 0.05
"""What is subtracted is a whole number; so far fp16 may take it from one."""


@dataclass(frozen=True)
class Used:
    """How an output used one scale: `times` 0 for not at all, -1 where it was divided by it, else with the element `at`."""

    at: int
    times: int


def read(
    runs: Runs, scales: Sequence[ScaleProbe], values: Sequence[Array], scalars: Mapping[str, int] | None = None
) -> Reading | None:
    """values: for each scale its elements in each run, float64 [R, L]. None where nothing is certain.

    The runs' weights are without scales, so that what an output is beyond its product is what scales it was given.
    scalars: the kernel's integers, for scales that have groups.
    """
    right = runs.right.copy()
    N = right.shape[2]
    own = [scale.own(torch.from_numpy(runs.k), N, scalars or {}).numpy() for scale in scales]
    for index, drawn in zip(own, values, strict=True):
        right *= drawn[:, index]
    with np.errstate(invalid="ignore"):
        wrong = (~(np.abs(runs.y - right) <= TOLERANCE * np.abs(right))).any(axis=0)
    places = [(m, n) for m, n in spread(np.argwhere(wrong)) if runs.right[:, m, n].all()]
    found = []
    for m, n in places:
        if (used := _used(runs, values, [int(index[m, n]) for index in own], m, n)) is not None:
            found.append((m, n, used))
    if len(found) < FEWEST or 2 * len(found) < len(places):
        return None
    for number, scale in enumerate(scales):
        other = 1 if scale.axis == "m" else 0
        each = [(int(own[number][m, n]), (m, n)[other], used[number]) for m, n, used in found]
        if (said := _told(scale, each, N)) is not None:
            return said
    return None


def _used(runs: Runs, values: Sequence[Array], own_of: Sequence[int], m: int, n: int) -> tuple[Used, ...] | None:
    """The one way of using the scales that gives the output in every run; None where none or several do. own_of: the right ones."""
    factor = runs.y[:, m, n] / runs.right[:, m, n]
    if not np.isfinite(factor).all():
        return None
    tables = []
    for own, drawn in zip(own_of, values, strict=True):
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


def _told(scale: ScaleProbe, own: Sequence[tuple[int, int, Used]], N: int) -> Reading | None:
    """What is wrong with one scale, where all that were read agree on what. own: its own index, the other one, and its use."""
    words = scale.words
    for name, times, said in (
        ("scale_forgotten", 0, f"Y is not multiplied by the {words}"),
        ("scale_twice", 2, f"Y is multiplied by the {words} twice"),
        ("divided_by_scale", -1, f"Y is divided by the {words} instead of multiplied"),
    ):
        if all(used.times == times for _, _, used in own):
            return Reading(name, f"{said}, in all {len(own)} wrong outputs that were read", said)
    if not all(used.times == 1 for _, _, used in own) or all(used.at == at for at, _, used in own):
        return None
    seen = [(at, beside, used.at) for at, beside, used in own]
    return _other("wrong_scale", words, NOUNS[scale.axis], seen, N if scale.group else 0)


def _other(name: str, words: str, noun: str, seen: Sequence[tuple[int, int, int]], N: int) -> Reading:
    """Elements that were used instead of the right ones. seen: right one, other index, used one. N: columns of a row; 0: one row."""
    if not N:
        at, taken = next((at, used) for at, _, used in seen if used != at)
        rule = _rule(noun, seen)
        return Reading(name, f"{noun} {at} used the {words} of {noun} {taken}{rule}", f"{words}s of other {noun}s are used{rule}")
    at, taken = next((at, used) for at, _, used in seen if used != at)
    said = f"group {at // N} of {noun} {at % N} used the {words} of group {taken // N} of {noun} {taken % N}"
    rule, what = "", "elements"
    if all(at % N == used % N for at, _, used in seen):
        rule, what = _rule("group", [(at // N, -1, used // N) for at, _, used in seen]), "groups"
    elif all(at // N == used // N for at, _, used in seen):
        rule, what = _rule(noun, [(at % N, beside, used % N) for at, beside, used in seen]), f"{noun}s"
    return Reading(name, said + rule, f"{words}s of other {what} are used{rule}")


def read_subtracted(runs: Runs, probe: SubtractedProbe, numbers: Array, scalars: Mapping[str, int]) -> Reading | None:
    """numbers: what should be subtracted, in each run, float64 [R, groups, N]; the runs' weights are without it already."""
    N = runs.y.shape[2]
    own = numbers[:, runs.k // scalars[probe.group]]
    weight = runs.w[:, :, runs.k].transpose(0, 2, 1)
    with np.errstate(all="ignore"):
        used = weight + own - runs.y / runs.x[:, :, None]
        wrong = (~(np.abs(used - own) <= WHOLE)).any(axis=0)
    places = spread(np.argwhere(wrong))
    if len(places) < FEWEST:
        return None
    rows, columns = np.array(places).T
    used, own = used[:, rows, columns], own[:, rows, columns]
    if not np.isfinite(used).all() or (np.abs(used - np.round(used)) > WHOLE).any():
        return None
    if said := _same(probe.words, np.round(used), own):
        return said
    seen = []
    for i, (m, n) in enumerate(places):
        fitting = np.argwhere((numbers == np.round(used[:, i])[:, None, None]).all(axis=0))
        if len(fitting) == 1:
            seen.append((int(runs.k[m]) // scalars[probe.group] * N + n, m, int(fitting[0][0]) * N + int(fitting[0][1])))
    if len(seen) < FEWEST or 2 * len(seen) < len(places):
        return None
    return _other("wrong_zero_point", probe.words, "column", seen, N)


def _same(words: str, used: Array, own: Array) -> Reading | None:
    """Whether it is the same number everywhere, or as much too small or large, or depends on the right number alone."""
    if (used == used[0, 0]).all():
        what = f"{used[0, 0]:.0f} is subtracted" if used[0, 0] else "nothing is subtracted"
        return Reading("subtracted_otherwise", f"{what} from every weight, whatever its {words} is", f"no {words} is subtracted")
    moved = used - own
    if (moved == moved[0, 0]).all():
        by = f"{abs(moved[0, 0]):.0f} {'more' if moved[0, 0] > 0 else 'less'} than the {words} is subtracted"
        return Reading("subtracted_otherwise", f"{by}, from every weight that was read", f"another number than the {words} is subtracted")
    table = {value: np.unique(used[own == value]) for value in np.unique(own)}
    if any(len(found) > 1 for found in table.values()):
        return None
    listed = ", ".join(f"{value:.0f} counts as {found[0]:.0f}" for value, found in table.items() if found[0] != value)
    return Reading("subtracted_otherwise", f"a {words} of {listed}", f"some {words}s count as others")


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
